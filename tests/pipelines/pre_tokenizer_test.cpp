#include "pipelines/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lamina {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PreTokenizer, WordsTakeOneCharacterBeforeThem) {
  EXPECT_THAT(pre_tokenize("a red\tcircle(on)"), ElementsAre("a", " red", "\tcircle", "(on", ")"));
}

TEST(PreTokenizer, ContractionsStandAlone) {
  EXPECT_THAT(pre_tokenize("we'LL it's'x"), ElementsAre("we", "'LL", " it", "'s", "'x"));
  EXPECT_THAT(pre_tokenize("'\u017F"), ElementsAre("'\u017F"));
  EXPECT_THAT(pre_tokenize("'r"), ElementsAre("'r"));
  EXPECT_THAT(pre_tokenize("'"), ElementsAre("'"));
}

TEST(PreTokenizer, NumbersAreSplitDigitByDigit) {
  EXPECT_THAT(pre_tokenize("x 12\u00BD"), ElementsAre("x", " ", "1", "2", "\u00BD"));
}

TEST(PreTokenizer, SymbolsTakeASpaceBeforeAndLineBreaksBehind) {
  EXPECT_THAT(pre_tokenize("  ?!\r\n\n x"), ElementsAre(" ", " ?!\r\n\n", " x"));
}

TEST(PreTokenizer, WhiteSpaceEndsBehindItsLastLineBreakOrBeforeItsLastCharacter) {
  EXPECT_THAT(pre_tokenize("a \n \n  b"), ElementsAre("a", " \n \n", " ", " b"));
  EXPECT_THAT(pre_tokenize("a\u3000 1"), ElementsAre("a", "\u3000", " ", "1"));
  EXPECT_THAT(pre_tokenize("a  "), ElementsAre("a", "  "));
}

TEST(PreTokenizer, EmptyTextHasNoPieces) {
  EXPECT_THAT(pre_tokenize(""), IsEmpty());
}

}  // namespace
}  // namespace lamina
