#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/expect_error.h"

namespace lamina {
namespace {

using testing::expect_error;

struct alignas(Arena::kAlignment) Block {
  std::array<std::byte, 1024> bytes;
};

/// The same tensors for a measuring and a real arena.
void lay_out(Arena& arena) {
  arena.take(DType::f32, {65});  // 260 bytes, 512 with padding
  const std::size_t mark = arena.used_bytes();
  arena.take(DType::u8, {400});
  arena.rewind(mark);
  arena.take(DType::bf16, {1});
}

TEST(Arena, MeasuresWhatARealOneUses) {
  Arena measured;
  lay_out(measured);
  EXPECT_TRUE(measured.measuring());
  EXPECT_EQ(measured.used_bytes(), 768u);
  EXPECT_EQ(measured.peak_bytes(), 1024u);

  Block block{};
  Arena real(block.bytes.data(), measured.peak_bytes());
  lay_out(real);
  EXPECT_EQ(real.used_bytes(), 768u);
  EXPECT_EQ(real.peak_bytes(), 1024u);
}

TEST(Arena, HandsOutAlignedMemoryThatDoesNotOverlap) {
  Block block{};
  Arena arena(block.bytes.data(), block.bytes.size());
  const TensorView first = arena.take(DType::u8, {1});
  const TensorView second = arena.take(DType::f32, {2, 3});
  EXPECT_EQ(first.data(), block.bytes.data());
  EXPECT_EQ(second.data(), block.bytes.data() + 256);
  EXPECT_EQ(second.shape(), (Shape{2, 3}));
  EXPECT_TRUE(second.is_contiguous());
}

TEST(Arena, RefusesMoreThanItHas) {
  Block block{};
  Arena arena(block.bytes.data(), block.bytes.size());
  arena.take(DType::u8, {700});
  expect_error(ErrorCode::internal, {"arena of 1024 bytes: 768 used, 512 more asked"},
               [&] { arena.take(DType::u8, {257}); });
  EXPECT_EQ(arena.take(DType::u8, {256}).data(), block.bytes.data() + 768);
  expect_error(ErrorCode::internal, {"rewound to 2048"}, [&] { arena.rewind(2048); });
}

TEST(Arena, MeasuringHandsOutNoMemory) {
  EXPECT_EQ(Arena().take(DType::f32, {4}).data(), nullptr);
}

TEST(Arena, NoMemoryIsNotMeasuring) {
  Arena arena(nullptr, 0);
  EXPECT_FALSE(arena.measuring());
  expect_error(ErrorCode::internal, {"arena of 0 bytes"}, [&] { arena.take(DType::u8, {1}); });
}

TEST(Arena, EmptyTensorsTakeNothing) {
  Arena arena;
  arena.take(DType::f32, {0, 7});
  EXPECT_EQ(arena.peak_bytes(), 0u);
}

}  // namespace
}  // namespace lamina
