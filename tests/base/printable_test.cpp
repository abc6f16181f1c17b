#include "base/printable.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

using namespace std::string_literals;

TEST(Printable, LeavesTextAsItIs) {
  for (const std::string text : {"", "a b\n\tc", "caf\u00E9 \u7D05 \U0001F600", "\u00A0\uD7FF\uE000"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, TakesControlCharactersOut) {
  EXPECT_EQ(printable("\x1B[31mred\x1B[0m\a\r\x7F"), "?[31mred?[0m???");
  EXPECT_EQ(printable("a\0b"s), "a?b");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "?31m");  // C1: a control sequence in one character
}

TEST(Printable, TakesBytesOutThatAreNoUtf8) {
  EXPECT_EQ(printable("\xFF"), "?");
  EXPECT_EQ(printable("a\xC3"), "a?");
  EXPECT_EQ(printable("\xC0\x9B"), "??");
  EXPECT_EQ(printable("\xE0\x82\x9B"), "???");
  EXPECT_EQ(printable("\xED\xA0\x80"), "???");
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "????");
}

TEST(Printable, CutsWhatIsLongAndSaysSo) {
  EXPECT_EQ(printable(std::string(1'000'000, 'x'), 4), "xxxx... (999996 more bytes)");
  EXPECT_EQ(printable("ab\u00E9", 3), "ab\u00E9");
}

}  // namespace
}  // namespace lamina
