#include "ops/copy.h"

#include "device/catch_error.h"
#include "op_test.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

class CopyTest : public OpTest {
 protected:
  static void copy(ops::OpContext& context, const std::vector<TensorView>& views) {
    ops::copy(context, views[0], views[1]);
  }
};

TEST_P(CopyTest, KeepsElementsOfStridedRows) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t features : {1, 3, 8, 400}) {
      const Tensor x = random(dtype, {37, features}, {0, 5});
      const Tensor y = blank({37, features}, {0, 8}, dtype);
      run({x, y}, copy);
      EXPECT_EQ(read(y), x.values);
    }
}

TEST_P(CopyTest, TakesOneToFourAxes) {
  for (const Shape& shape : {Shape{5}, Shape{3, 5}, Shape{2, 3, 5}, Shape{4, 2, 3, 5}}) {
    const Tensor x = random(shape);
    const Tensor y = blank(shape);
    run({x, y}, copy);
    EXPECT_EQ(read(y), x.values) << to_string(shape);
  }
}

/// [rows, groups, parts, width] to [parts, rows, groups, width] and back: heads for tokens.
TEST_P(CopyTest, FollowsPermutedAxes) {
  constexpr std::int64_t kRows = 5;
  constexpr std::int64_t kGroups = 3;
  constexpr std::int64_t kParts = 2;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t width : {3, 16}) {
      const Tensor x = random(dtype, {kRows, kGroups, kParts, width}, {0, 0, 0, 0});
      const Tensor moved = blank({kParts, kRows, kGroups, width}, {0, 2, 0, 0}, dtype);
      run({x, moved}, [](auto& context, const auto& v) { ops::copy(context, v[0].permute({2, 0, 1, 3}), v[1]); });
      const Values values = read(moved);
      std::size_t i = 0;
      for (std::int64_t part = 0; part < kParts; ++part)
        for (std::int64_t row = 0; row < kRows; ++row)
          for (std::int64_t group = 0; group < kGroups; ++group)
            for (std::int64_t feature = 0; feature < width; ++feature) {
              const std::int64_t from = ((row * kGroups + group) * kParts + part) * width + feature;
              ASSERT_EQ(values[i++], x.values[static_cast<std::size_t>(from)]);
            }
      const Tensor back = blank({kRows, kGroups, kParts, width}, {0, 0, 0, 0}, dtype);
      run({moved, back}, [](auto& context, const auto& v) { ops::copy(context, v[0], v[1].permute({2, 0, 1, 3})); });
      EXPECT_EQ(read(back), x.values);
    }
}

TEST_P(CopyTest, RefusesOperandsThatDoNotFit) {
  const auto message = [&](const TensorView& x, const TensorView& y) {
    return catch_error([&] { plan([&](ops::OpContext& context) { ops::copy(context, x, y); }); }).message();
  };
  const Tensor x = random({4, 6});
  EXPECT_THAT(message(x.view, random({4, 5}).view), HasSubstr("copy: operand y"));
  EXPECT_THAT(message(x.view, x.view), HasSubstr("no overlap with operand x"));
  EXPECT_THAT(message(x.view.permute({1, 0}), random({6, 4}).view), HasSubstr("copy: operand x"));
  EXPECT_THAT(message(random({1, 1, 1, 2, 2}).view, random({1, 1, 1, 2, 2}).view), HasSubstr("1 to 4 axes"));
}

INSTANTIATE_TEST_SUITE_P(Devices, CopyTest, ::testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace lamina::testing
