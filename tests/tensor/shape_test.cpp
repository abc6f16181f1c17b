#include "tensor/shape.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/expect_error.h"
#include "tensor/tensor_spec.h"

namespace lamina {
namespace {

using testing::expect_error;

TEST(Shape, HoldsExtentsOutermostFirst) {
  const Shape shape{512, 160};
  EXPECT_EQ(shape.rank(), 2u);
  EXPECT_EQ(shape[0], 512);
  EXPECT_EQ(shape[1], 160);
  EXPECT_EQ(to_string(shape), "[512, 160]");
  EXPECT_EQ(shape.elements(), 81920);
}

TEST(Shape, ScalarsHaveOneElementAndEmptyTensorsNone) {
  EXPECT_EQ(Shape{}.rank(), 0u);
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ((Shape{3, 0, 2}).elements(), 0);
}

TEST(Shape, ComparesRankAndExtents) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
  EXPECT_NE((Shape{}), (Shape{0}));
}

TEST(Shape, RefusesNegativeExtentsAndTooManyAxes) {
  expect_error(ErrorCode::invalid_argument, {"negative extent -1 on axis 1"}, [] { Shape({2, -1}); });
  EXPECT_EQ((Shape{1, 2, 3, 4, 5, 6, 7, 8}).rank(), 8u);
  expect_error(ErrorCode::invalid_argument, {"rank 9", "at most 8"}, [] { Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}); });
}

TEST(Shape, ReportsOverflow) {
  EXPECT_EQ((Shape{INT64_MAX}).checked_elements(), INT64_MAX);
  EXPECT_EQ((Shape{INT64_MAX, 1}).checked_elements(), INT64_MAX);
  EXPECT_EQ((Shape{std::int64_t{1} << 32, std::int64_t{1} << 31}).checked_elements(), std::nullopt);
  EXPECT_EQ((Shape{std::int64_t{1} << 32, 0, std::int64_t{1} << 31}).checked_elements(), std::nullopt);
  expect_error(ErrorCode::internal, {"overflows", "9223372036854775807"}, [] { Shape{INT64_MAX, 2}.elements(); });
}

TEST(TensorSpec, KnowsItsBytes) {
  const TensorSpec spec{"x_embedder.weight", DType::bf16, {160, 128}};
  EXPECT_EQ(spec.size_bytes(), 40960u);
  EXPECT_EQ(to_string(spec), "x_embedder.weight BF16 [160, 128]");
  const TensorSpec largest{"w", DType::f64, {INT64_MAX}};
  expect_error(ErrorCode::internal, {"the size of tensor w", "overflows"}, [&] { largest.size_bytes(); });
}

}  // namespace
}  // namespace lamina
