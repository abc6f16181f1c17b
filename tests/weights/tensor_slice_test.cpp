#include "weights/tensor_slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "base/expect_error.h"

namespace lamina {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;
using Cut = ShardRule::Cut;

/// What a rank holds of a tensor whose elements are 0, 1, 2, ..., copied from an odd address. Bytes around the
/// destination stay as they are.
template <typename Element>
std::vector<Element> cut(DType dtype, const Shape& shape, const ShardRule& rule, const TensorParallel& parallel) {
  std::vector<Element> elements(static_cast<std::size_t>(shape.elements()));
  std::iota(elements.begin(), elements.end(), Element{0});
  std::vector<std::byte> file(elements.size() * sizeof(Element) + 1);
  std::ranges::copy(std::as_bytes(std::span(elements)), file.begin() + 1);

  const TensorSlice slice({"w", dtype, shape}, rule, parallel);
  const std::size_t size = slice.local().size_bytes();
  std::vector<std::byte> image(size + 2, std::byte{0xEE});
  slice.copy({file.data() + 1, dtype, shape}, image.data() + 1);
  EXPECT_EQ(image.front(), std::byte{0xEE});
  EXPECT_EQ(image.back(), std::byte{0xEE});
  std::vector<Element> part(size / sizeof(Element));
  std::ranges::copy(std::span(image).subspan(1, size), std::as_writable_bytes(std::span(part)).begin());
  return part;
}

TEST(TensorSlice, OfAReplicatedTensorIsTheTensor) {
  const TensorSlice slice({"w", DType::bf16, {2, 3}}, {}, {.degree = 4, .rank = 3});
  EXPECT_EQ(slice.local(), slice.stored());
  EXPECT_THAT((cut<std::uint16_t>(DType::bf16, {2, 3}, {}, {4, 3})), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT((cut<std::uint16_t>(DType::bf16, {}, {}, {4, 3})), ElementsAre(0));
}

TEST(TensorSlice, OfDegreeOneIsTheTensor) {
  const ShardRule rule{Cut::columns, {2, 1}};
  EXPECT_EQ(TensorSlice({"w", DType::f32, {2, 3}}, rule, {}).local(), (TensorSpec{"w", DType::f32, {2, 3}}));
  EXPECT_THAT((cut<std::uint32_t>(DType::f32, {2, 3}, rule, {})), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(TensorSlice, TakesItsShareOfEveryGroupOfRows) {
  const ShardRule rule{Cut::rows, {2, 4}};
  EXPECT_EQ(TensorSlice({"w", DType::bf16, {6, 2}}, rule, {2, 1}).local(), (TensorSpec{"w", DType::bf16, {3, 2}}));
  EXPECT_THAT((cut<std::uint16_t>(DType::bf16, {6, 2}, rule, {2, 0})), ElementsAre(0, 1, 4, 5, 6, 7));
  EXPECT_THAT((cut<std::uint16_t>(DType::bf16, {6, 2}, rule, {2, 1})), ElementsAre(2, 3, 8, 9, 10, 11));
}

TEST(TensorSlice, TakesItsShareOfEveryGroupOfColumns) {
  const ShardRule rule{Cut::columns, {2, 4}};
  EXPECT_EQ(TensorSlice({"w", DType::f32, {2, 6}}, rule, {2, 1}).local(), (TensorSpec{"w", DType::f32, {2, 3}}));
  EXPECT_THAT((cut<std::uint32_t>(DType::f32, {2, 6}, rule, {2, 0})), ElementsAre(0, 2, 3, 6, 8, 9));
  EXPECT_THAT((cut<std::uint32_t>(DType::f32, {2, 6}, rule, {2, 1})), ElementsAre(1, 4, 5, 7, 10, 11));
}

TEST(TensorSlice, CutsVectorsAndConvolutions) {
  EXPECT_THAT((cut<std::uint16_t>(DType::bf16, {4}, {Cut::rows, {4}}, {2, 1})), ElementsAre(2, 3));
  EXPECT_THAT((cut<std::uint16_t>(DType::bf16, {2, 2, 2}, {Cut::columns, {2}}, {2, 1})), ElementsAre(2, 3, 6, 7));
}

TEST(TensorSlice, TellsWhereEachOfItsBytesIsStored) {
  // 2 rows of 6 f32, of which rank 1 has columns 1, 4 and 5.
  const TensorSlice columns({"w", DType::f32, {2, 6}}, {Cut::columns, {2, 4}}, {2, 1});
  const auto run = [&](std::size_t at) { return std::pair(columns.run_at(at).stored_offset, columns.run_at(at).size); };
  EXPECT_EQ(run(0), std::pair(4UL, 4UL));
  EXPECT_EQ(run(3), std::pair(7UL, 1UL));
  EXPECT_EQ(run(4), std::pair(16UL, 8UL));
  EXPECT_EQ(run(8), std::pair(20UL, 4UL));
  EXPECT_EQ(run(12), std::pair(28UL, 4UL));
  EXPECT_EQ(run(23), std::pair(47UL, 1UL));
  expect_error(ErrorCode::internal, {"byte 24"}, [&] { columns.run_at(24); });
  // Of rows, a run is as long as the share of a group; a group without elements has none.
  const TensorSlice rows({"w", DType::bf16, {6, 2}}, {Cut::rows, {0, 2, 4}}, {2, 0});
  EXPECT_EQ(rows.run_at(2).size, 2U);
  EXPECT_EQ(rows.run_at(4).stored_offset, 8U);
  EXPECT_EQ(rows.run_at(4).size, 8U);
}

TEST(TensorSlice, MayBeEmpty) {
  EXPECT_TRUE((cut<std::uint16_t>(DType::bf16, {0, 4}, {Cut::columns, {4}}, {2, 1})).empty());
  EXPECT_TRUE((cut<std::uint16_t>(DType::bf16, {4, 0}, {Cut::columns, {0}}, {2, 1})).empty());
}

TEST(TensorSlice, RefusesGroupsThatDoNotFit) {
  const auto refused = [](const Shape& shape, const ShardRule& rule, std::vector<std::string> parts) {
    parts.push_back("tensor blocks.0.w BF16 " + to_string(shape));
    expect_error(ErrorCode::incompatible, parts, [&] {
      TensorSlice({"blocks.0.w", DType::bf16, shape}, rule, {.degree = 2, .rank = 0});
    });
  };
  refused({4, 6}, {Cut::rows, {2, 4}}, {"axis 0 is not made up of [2, 4]"});
  refused({4, 6}, {Cut::columns, {2, 2}}, {"axis 1 is not made up of [2, 2]"});
  refused({4, 6}, {Cut::rows, {8, -4}}, {"axis 0 is not made up of [8, -4]"});
  refused({4, 6}, {Cut::rows, {}}, {"axis 0 is not made up of []"});
  refused({4, 6}, {Cut::columns, {3, 3}}, {"degree 2", "[3, 3]", "3 does not divide"});
  refused({4}, {Cut::columns, {4}}, {"no axis 1"});
}

TEST(TensorSlice, KnowsTheRanksOfItsGroup) {
  for (const TensorParallel parallel : {TensorParallel{0, 0}, TensorParallel{2, 2}, TensorParallel{2, -1}})
    expect_error(ErrorCode::internal, {"no rank"}, [&] { TensorSlice({"w", DType::f32, {2}}, {}, parallel); });
}

TEST(TensorSlice, IsCutOutOfItsOwnTensorOnly) {
  const TensorSlice slice({"w", DType::bf16, {2, 2}}, {Cut::rows, {2}}, {2, 0});
  std::vector<std::byte> bytes(16);
  expect_error(ErrorCode::internal, {"tensor w BF16 [2, 2]", "BF16 [4, 1]"}, [&] {
    slice.copy({bytes.data(), DType::bf16, {4, 1}}, bytes.data());
  });
}

}  // namespace
}  // namespace lamina
