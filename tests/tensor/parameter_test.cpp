#include "tensor/parameter.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>

#include "base/expect_error.h"

namespace lamina {
namespace {

using testing::expect_error;

TEST(Parameter, IsReadableOnlyWhileBound) {
  const std::array<std::byte, 8> memory{};
  Parameter parameter({"proj_out.weight", DType::bf16, {2, 2}});
  EXPECT_EQ(parameter.name(), "proj_out.weight");
  EXPECT_TRUE(parameter.is_placeholder());
  expect_error(ErrorCode::internal, {"proj_out.weight BF16 [2, 2]", "outside its lease"}, [&] { parameter.view(); });

  parameter.bind(memory.data());
  EXPECT_EQ(parameter.view().data(), memory.data());
  EXPECT_EQ(parameter.view().dtype(), DType::bf16);
  EXPECT_EQ(parameter.view().shape(), (Shape{2, 2}));

  parameter.unbind();
  expect_error(ErrorCode::internal, {"proj_out.weight", "outside its lease"}, [&] { parameter.view(); });
  expect_error(ErrorCode::internal, {"proj_out.weight", "no memory"}, [&] { parameter.bind(nullptr); });
}

TEST(ShapeOnlyBinding, BindsPlaceholdersForOneScope) {
  const std::array<std::byte, 4> memory{};
  Parameter placeholder({"a", DType::f32, {3}});
  Parameter bound({"b", DType::f32, {1}});
  bound.bind(memory.data());
  {
    const ShapeOnlyBinding binding({&placeholder, &bound});
    EXPECT_EQ(placeholder.view().data(), nullptr);
    EXPECT_EQ(placeholder.view().shape(), (Shape{3}));
    EXPECT_EQ(bound.view().data(), memory.data());
  }
  EXPECT_TRUE(placeholder.is_placeholder());
  EXPECT_EQ(bound.view().data(), memory.data());
}

}  // namespace
}  // namespace lamina
