#include "ops/validate.h"

#include <array>

#include "device/catch_error.h"
#include "op_test.h"

namespace lamina::testing {
namespace {

using ops::Operand;
using ::testing::HasSubstr;

class OperandTest : public ::testing::Test {
 protected:
  TensorView rows(std::int64_t count, std::int64_t features) {
    return TensorView(memory_.data(), DType::f32, {count, features});
  }

  static bool apart(const ConstTensorView& a, const ConstTensorView& b) {
    try {
      Operand("test", "b", b).apart_from(Operand("test", "a", a));
      Operand("test", "a", a).apart_from(Operand("test", "b", b));
      return true;
    } catch (const Error&) {
      EXPECT_THROW(Operand("test", "a", a).apart_from(Operand("test", "b", b)), Error);
      return false;
    }
  }

  alignas(64) std::array<std::byte, 4096> memory_{};
};

TEST_F(OperandTest, ColumnsOfOneBufferAreApart) {
  const TensorView whole = rows(5, 12);
  EXPECT_TRUE(apart(whole.slice(1, 0, 4), whole.slice(1, 4, 12)));
  EXPECT_TRUE(apart(whole.slice(1, 0, 4), whole.slice(1, 8, 12).slice(0, 1, 5)));
  EXPECT_TRUE(apart(whole.slice(1, 0, 4).split_last(2), whole.slice(1, 4, 12).split_last(4)));
  EXPECT_FALSE(apart(whole.slice(1, 0, 5), whole.slice(1, 4, 12)));
  EXPECT_FALSE(apart(whole.slice(1, 4, 12), whole.slice(1, 4, 12).slice(0, 4, 5)));
  EXPECT_FALSE(apart(whole.slice(1, 3, 9), whole.slice(1, 0, 4).slice(0, 2, 5)));
}

TEST_F(OperandTest, OtherLayoutsAreApartWhereTheirSpansAre) {
  const TensorView whole = rows(6, 12);
  EXPECT_TRUE(apart(whole.slice(0, 0, 3), whole.slice(0, 3, 6)));
  EXPECT_FALSE(apart(whole.slice(0, 0, 4), whole.slice(0, 3, 6)));
  EXPECT_FALSE(apart(whole.slice(1, 0, 4), rows(12, 6).slice(1, 4, 6)));  // strides differ
  const TensorView other(memory_.data() + 2048, DType::f32, {6, 12});
  EXPECT_TRUE(apart(whole, other));
}

TEST_F(OperandTest, TheVerySameElementsMayBeAllowed) {
  const TensorView whole = rows(4, 6);
  const Operand operand("test", "a", whole);
  EXPECT_NO_THROW(Operand("test", "b", whole).same_or_apart_from(operand));
  EXPECT_THROW(Operand("test", "b", whole.slice(0, 0, 3)).same_or_apart_from(operand), Error);
}

TEST_F(OperandTest, AbsentDataIsNotCompared) {
  const TensorView nothing(nullptr, DType::f32, {4, 6});
  EXPECT_TRUE(apart(nothing, nothing));
  EXPECT_TRUE(apart(rows(4, 6), nothing));
}

TEST_F(OperandTest, ErrorsNameOperationOperandAndLayout) {
  const Operand operand("multiply", "a", rows(4, 8).slice(1, 1, 7));
  const Error error = catch_error([&] { operand.contiguous(); });
  EXPECT_EQ(error.code(), ErrorCode::internal);
  EXPECT_EQ(error.message(), "multiply: operand a is F32 [4, 6] with strides [8, 1], expected contiguous elements");
  EXPECT_THAT(catch_error([&] { operand.rank(3); }).message(), HasSubstr("expected rank 3"));
  EXPECT_THAT(catch_error([&] { operand.shape({6, 4}); }).message(), HasSubstr("expected shape [6, 4]"));
  EXPECT_THAT(catch_error([&] { operand.dtype({DType::bf16}); }).message(), HasSubstr("F32, supported: BF16"));
  EXPECT_NO_THROW(operand.f32().rank(2).shape({4, 6}).rows());
}

}  // namespace
}  // namespace lamina::testing
