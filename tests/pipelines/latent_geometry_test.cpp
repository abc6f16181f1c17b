#include "pipelines/latent_geometry.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"

namespace lamina {
namespace {

const LatentGeometry kGeometry(8, 2);

TEST(LatentGeometry, CountsTokens) {
  EXPECT_EQ(kGeometry.patch_pixels(), 16);
  EXPECT_EQ(kGeometry.grid(96, 160), (TokenGrid{6, 10}));
  EXPECT_EQ(kGeometry.grid(96, 160).tokens(), 60);
  EXPECT_EQ(kGeometry.grid(16, 4096), (TokenGrid{1, 256}));
}

TEST(LatentGeometry, RefusalsNameTheNearestLegalSides) {
  const auto refused = [](std::int64_t height, std::int64_t width, const char* message) {
    testing::expect_error(ErrorCode::invalid_argument, {message}, [&] { kGeometry.grid(height, width); });
  };
  refused(100, 64, "height 100 is not a multiple of 16 from 16 to 4096; nearest legal heights are 96 and 112");
  refused(64, 4090, "width 4090 is not a multiple of 16 from 16 to 4096; nearest legal widths are 4080 and 4096");
  refused(0, 64, "height 0 is not a multiple of 16 from 16 to 4096; the nearest legal height is 16");
  refused(64, -48, "the nearest legal width is 16");
  refused(5, 64, "the nearest legal height is 16");
  refused(100000, 64, "height 100000 is not a multiple of 16 from 16 to 4096; the nearest legal height is 4096");
  refused(64, std::int64_t{1} << 62, "the nearest legal width is 4096");
}

}  // namespace
}  // namespace lamina
