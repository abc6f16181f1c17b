#include "pipelines/pictures/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <span>
#include <string>

#include "base/expect_error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/temporary_folder.h"
#include "pipelines/pictures/image_decoders.h"
#include "test_data.h"

namespace lamina {
namespace {

std::filesystem::path picture(const std::string& name) {
  return test_data::fixtures() / "images" / name;
}

TEST(QuantizeImage, ClampsAndRoundsToEven) {
  const std::vector<float> values = {-0.5F, 0.0F, 1.0F, 7.0F, 0.5F, 1.5F / 255, 2.5F / 255, 0.999F, 0.001F};
  // 127.5 and 1.5 and 2.5 are ties, as far as float32 can tell.
  EXPECT_EQ(quantize_image(values, 1, 3).pixels, (std::vector<std::uint8_t>{0, 0, 255, 255, 128, 2, 2, 255, 0}));
}

TEST(QuantizeImage, InfinitiesAreClampedButNanIsRefused) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(quantize_image(std::vector{infinity, -infinity, 0.0F}, 1, 1).pixels,
            (std::vector<std::uint8_t>{255, 0, 0}));
  std::vector<float> values(2 * 2 * 3, 0.5F);
  values[10] = std::numeric_limits<float>::quiet_NaN();
  testing::expect_error(ErrorCode::corrupt, {"row 1, column 1"}, [&] { quantize_image(values, 2, 2); });
}

TEST(ReadPicture, DecodesAsPillow) {
  const Json pictures = read_json_file(picture("expected.json"));
  ASSERT_GT(pictures.size(), 10U);
  for (const auto& [name, expected] : pictures.items()) {
    const RgbImage image = read_picture(picture(name)).image;
    EXPECT_EQ(image.width, expected["width"].get<std::int64_t>()) << name;
    EXPECT_EQ(image.height, expected["height"].get<std::int64_t>()) << name;
    const auto pixels = expected["pixels"].get<std::vector<int>>();
    ASSERT_EQ(image.pixels.size(), pixels.size()) << name;
    // JPEG decoders may differ in the last bit.
    const int tolerance = name.ends_with(".jpg") ? 1 : 0;
    for (std::size_t i = 0; i < pixels.size(); ++i)
      ASSERT_LE(std::abs(image.pixels[i] - pixels[i]), tolerance) << name << ", value " << i;
  }
}

TEST(ReadPicture, RefusesOtherFiles) {
  const testing::TemporaryFolder folder;
  testing::expect_error(ErrorCode::not_found, {"none.png"}, [&] { read_picture(folder.path() / "none.png"); });
  const auto gif = folder.write("a.png", "GIF89a, or so it says");
  testing::expect_error(ErrorCode::invalid_argument, {gif.string(), "PNG, JPEG or WebP"}, [&] { read_picture(gif); });
  const auto empty = folder.write("empty.jpg", "");
  testing::expect_error(ErrorCode::corrupt, {empty.string(), "0 bytes"}, [&] { read_picture(empty); });
}

PictureFile decode(const std::string& name, const std::string& content) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(content));
  if (name.ends_with(".png")) return decode_png(bytes, name);
  return name.ends_with(".jpg") ? decode_jpeg(bytes, name) : decode_webp(bytes, name);
}

TEST(ReadPicture, RefusesEveryTruncation) {
  for (const std::string name : {"rgb.png", "interlaced.png", "palette.png", "baseline.jpg", "progressive.jpg",
                                 "ycck.jpg", "lossy.webp", "animation.webp"}) {
    const std::string whole = read_text_file(picture(name));
    for (std::size_t length = 0; length < whole.size() && !HasFailure(); ++length) {
      SCOPED_TRACE(name + " cut to " + std::to_string(length) + " of " + std::to_string(whole.size()));
      testing::expect_error(ErrorCode::corrupt, {name}, [&] { decode(name, whole.substr(0, length)); });
    }
  }
}

TEST(ReadPicture, DamageIsAnErrorOrAPictureButNeverACrash) {
  for (const std::string name : {"rgb.png", "palette.png", "rgb16.png", "exif5.png", "baseline.jpg", "progressive.jpg",
                                 "grey.jpg", "ycck.jpg", "exif6.jpg", "lossy.webp", "exif3.webp", "animation.webp"}) {
    const std::string whole = read_text_file(picture(name));
    std::size_t refused = 0;
    for (std::size_t position = 0; position < whole.size(); ++position) {
      std::string damaged = whole;
      damaged[position] = static_cast<char>(damaged[position] ^ 0x55);
      try {
        const PictureFile file = decode(name, damaged);
        const int turn = orientation(file.metadata);
        EXPECT_TRUE(turn >= 1 && turn <= 8) << name;
      } catch (const Error& error) {
        ++refused;
        EXPECT_THAT(error.message(), ::testing::HasSubstr(name));
      }
    }
    EXPECT_GT(refused, whole.size() / 10) << name;
  }
}

TEST(ReadPicture, SaysThatAJpegIsCutShort) {
  std::string jpeg = read_text_file(picture("baseline.jpg"));
  jpeg.resize(jpeg.size() - 2);  // its end marker: Pillow refuses it, too
  testing::expect_error(ErrorCode::corrupt, {"a.jpg", "cut short", "save it anew"}, [&] { decode("a.jpg", jpeg); });
}

TEST(ReadPicture, RefusesSizesThatOnlyAHeaderClaims) {
  const testing::TemporaryFolder folder;
  std::string jpeg = read_text_file(picture("baseline.jpg"));
  const std::size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xFF\xDC\xFF\xDC");
  const auto file = folder.write("huge.jpg", jpeg);
  testing::expect_error(ErrorCode::invalid_argument, {file.string(), "65500 x 65500", "178956970"},
                        [&] { read_picture(file); });
}

}  // namespace
}  // namespace lamina
