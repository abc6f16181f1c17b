#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/expect_error.h"
#include "base/file.h"
#include "base/temporary_folder.h"
#include "pipelines/pictures/image.h"
#include "pipelines/pictures/test_images.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PngWriterTest : public ::testing::Test {
 protected:
  std::string written(const std::string& name, const RgbImage& image, const std::vector<PictureText>& texts) const {
    write_png(AtomicFile(folder_.path() / name), image, texts);
    return read_text_file(folder_.path() / name);
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(PngWriterTest, ReadsBackAsItWas) {
  for (const auto& [height, width] : {std::pair{1, 1}, {7, 5}, {96, 160}}) {
    const RgbImage image = testing::pattern(height, width);
    written("a.png", image, {});
    EXPECT_EQ(read_picture(folder_.path() / "a.png").image, image);
  }
}

TEST_F(PngWriterTest, EqualPicturesAreEqualFiles) {
  const RgbImage image = testing::pattern(33, 40);
  const std::vector<PictureText> texts = {{"prompt", "a red circle"}, {"seed", "7"}};
  EXPECT_EQ(written("a.png", image, texts), written("b.png", image, texts));
  EXPECT_THAT(written("c.png", image, texts), Not(HasSubstr("tIME")));
}

TEST_F(PngWriterTest, CarriesTexts) {
  const std::string file = written("a.png", testing::pattern(4, 4),
                                   {{"prompt", "caf\u00E9\nred"}, {"title", "\u7D05\u3044\u5186"}, {"note", ""}});
  using namespace std::string_literals;
  EXPECT_THAT(file, HasSubstr("tEXtprompt\0caf\xE9\nred"s));
  EXPECT_THAT(file, HasSubstr("iTXttitle\0\0\0\0\0\u7D05\u3044\u5186"s));
  EXPECT_THAT(file, HasSubstr("tEXtnote\0"s));
}

TEST_F(PngWriterTest, RefusesTextsThatNoChunkHolds) {
  const auto write = [&](const std::string& value) { written("a.png", testing::pattern(4, 4), {{"prompt", value}}); };
  testing::expect_error(ErrorCode::invalid_argument, {"prompt", "byte 1"}, [&] { write("x\xFF"); });
  testing::expect_error(ErrorCode::invalid_argument, {"prompt", "zero byte"}, [&] { write(std::string("x\0y", 3)); });
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(PngWriterTest, UnwritablePlaceIsRefusedBeforeAnyWork) {
  const auto file = folder_.path() / "none" / "a.png";
  testing::expect_error(ErrorCode::unavailable, {file.string()}, [&] { AtomicFile{file}; });
}

}  // namespace
}  // namespace lamina
