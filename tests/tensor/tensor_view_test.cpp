#include "tensor/tensor_view.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <numeric>
#include <span>

#include "base/expect_error.h"

namespace lamina {
namespace {

using testing::expect_error;

class TensorViewTest : public ::testing::Test {
 protected:
  TensorViewTest() { std::iota(values_.begin(), values_.end(), 0.0f); }

  TensorView view(const Shape& shape) {
    return TensorView(std::as_writable_bytes(std::span(values_)).data(), DType::f32, shape);
  }

  std::array<float, 24> values_{};
};

TEST_F(TensorViewTest, IsRowMajor) {
  const TensorView tensor = view({2, 3, 4});
  EXPECT_EQ(tensor.stride(0), 12);
  EXPECT_EQ(tensor.stride(1), 4);
  EXPECT_EQ(tensor.stride(2), 1);
  EXPECT_TRUE(tensor.is_contiguous());
  EXPECT_EQ(tensor.span_bytes(), 96u);
  EXPECT_EQ(tensor.as<float>()[23], 23.0f);
}

TEST_F(TensorViewTest, SlicesKeepStrides) {
  const TensorView columns = view({6, 4}).slice(1, 1, 3);
  EXPECT_EQ(columns.shape(), (Shape{6, 2}));
  EXPECT_EQ(columns.stride(0), 4);
  EXPECT_FALSE(columns.is_contiguous());
  EXPECT_EQ(*columns.as<float>(), 1.0f);
  EXPECT_EQ(columns.span_bytes(), (5 * 4 + 2) * sizeof(float));

  const TensorView rows = view({6, 4}).slice(0, 2, 4);
  EXPECT_TRUE(rows.is_contiguous());
  EXPECT_EQ(*rows.as<float>(), 8.0f);
  EXPECT_EQ(columns.slice(0, 3, 3).span_bytes(), 0u);
}

TEST_F(TensorViewTest, SplitsTheLastAxisOfStridedViews) {
  const TensorView heads = view({2, 12}).slice(1, 4, 12).split_last(2);
  EXPECT_EQ(heads.shape(), (Shape{2, 4, 2}));
  EXPECT_EQ(heads.stride(0), 12);
  EXPECT_EQ(heads.stride(1), 2);
  EXPECT_EQ(heads.stride(2), 1);
  EXPECT_EQ(heads.as<float>()[heads.stride(0) + heads.stride(1)], 18.0f);
}

TEST_F(TensorViewTest, ReshapesContiguousViews) {
  EXPECT_EQ(view({2, 3, 4}).reshape({4, 6}).shape(), (Shape{4, 6}));
  expect_error(ErrorCode::internal, {"[2, 3, 4]", "[5, 5]"}, [&] { view({2, 3, 4}).reshape({5, 5}); });
  expect_error(ErrorCode::internal, {"[6, 2]", "[12]"}, [&] { view({6, 4}).slice(1, 0, 2).reshape({12}); });
}

TEST_F(TensorViewTest, PermutesAxes) {
  const TensorView heads = view({2, 3, 4}).permute({2, 0, 1});
  EXPECT_EQ(heads.shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(heads.stride(0), 1);
  EXPECT_EQ(heads.stride(1), 12);
  EXPECT_EQ(heads.stride(2), 4);
  EXPECT_EQ(*heads.slice(0, 3, 4).slice(1, 1, 2).slice(2, 2, 3).as<float>(), 23.0f);
  expect_error(ErrorCode::internal, {"axis 1 in an order of 3", "[2, 3, 4]"}, [&] {
    view({2, 3, 4}).permute({0, 1, 1});
  });
  expect_error(ErrorCode::internal, {"an order of 2"}, [&] { view({2, 3, 4}).permute({0, 1}); });
  expect_error(ErrorCode::internal, {"axis 3"}, [&] { view({2, 3, 4}).permute({0, 1, 3}); });
}

TEST_F(TensorViewTest, RefusesWhatLiesOutside) {
  const TensorView tensor = view({6, 4});
  expect_error(ErrorCode::internal, {"slice [0, 7) of axis 0 of [6, 4]"}, [&] { tensor.slice(0, 0, 7); });
  expect_error(ErrorCode::internal, {"slice [3, 2) of axis 0"}, [&] { tensor.slice(0, 3, 2); });
  expect_error(ErrorCode::internal, {"slice [-1, 2) of axis 0"}, [&] { tensor.slice(0, -1, 2); });
  expect_error(ErrorCode::internal, {"of axis 2"}, [&] { tensor.slice(2, 0, 1); });
  expect_error(ErrorCode::internal, {"[6, 4] does not split by 3"}, [&] { tensor.split_last(3); });
  expect_error(ErrorCode::internal, {"does not split by 0"}, [&] { tensor.split_last(0); });
  expect_error(ErrorCode::internal, {"[] does not split"}, [&] { view({}).split_last(1); });
}

TEST_F(TensorViewTest, ScalarsAndEmptyTensorsAreContiguous) {
  EXPECT_TRUE(view({}).is_contiguous());
  EXPECT_EQ(view({}).span_bytes(), 4u);
  EXPECT_TRUE(view({0, 3}).is_contiguous());
  EXPECT_EQ(view({3, 0}).span_bytes(), 0u);
}

TEST_F(TensorViewTest, PlanningViewsHaveShapesWithoutData) {
  const TensorView planned(nullptr, DType::f32, {6, 4});
  EXPECT_EQ(planned.slice(0, 2, 4).data(), nullptr);
  const ConstTensorView operand = planned;
  EXPECT_EQ(operand.shape(), (Shape{6, 4}));
  EXPECT_EQ(operand.stride(0), 4);
}

}  // namespace
}  // namespace lamina
