#include "device/memory_budget.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>

#include "catch_error.h"

namespace lamina::testing {
namespace {

MemoryPart part(const MemoryUse& use, std::string_view name) {
  for (const MemoryPart& part : use.parts)
    if (part.name == name) return part;
  throw std::logic_error("no such part");
}

TEST(MemoryBudget, TellsWhatEachPartHadWhenTheTotalPeaked) {
  MemoryBudget budget(std::nullopt);
  budget.reserve(100, "ring");
  budget.reserve(50, "activations");
  budget.release(100, "ring");
  budget.reserve(20, "activations");
  budget.reserve(60, "ring");

  const MemoryUse use = budget.use();
  EXPECT_FALSE(use.limit_bytes.has_value());
  EXPECT_EQ(use.used_bytes, 130U);
  EXPECT_EQ(use.peak_bytes, 150U);
  EXPECT_EQ(part(use, "ring").used_bytes, 60U);
  EXPECT_EQ(part(use, "ring").peak_bytes, 100U);
  EXPECT_EQ(part(use, "ring").at_peak_bytes, 100U);
  EXPECT_EQ(part(use, "activations").used_bytes, 70U);
  EXPECT_EQ(part(use, "activations").peak_bytes, 70U);
  EXPECT_EQ(part(use, "activations").at_peak_bytes, 50U);
}

TEST(MemoryBudget, PeaksStartAgainFromWhatIsUsed) {
  MemoryBudget budget(std::nullopt);
  budget.reserve(100, "encoder");
  budget.reserve(30, "ring");
  budget.release(100, "encoder");
  budget.reset_peak();
  EXPECT_EQ(budget.use().peak_bytes, 30U);
  EXPECT_EQ(budget.use().parts.size(), 1U);
  budget.reserve(5, "encoder");
  EXPECT_EQ(budget.use().peak_bytes, 35U);
  EXPECT_EQ(part(budget.use(), "encoder").at_peak_bytes, 5U);
}

TEST(MemoryBudget, ARefusalBooksNothing) {
  MemoryBudget budget(100);
  budget.reserve(60, "ring");
  EXPECT_EQ(catch_error([&] { budget.reserve(41, "activations"); }).code(), ErrorCode::out_of_device_memory);
  EXPECT_EQ(budget.use().used_bytes, 60U);
  EXPECT_EQ(budget.use().peak_bytes, 60U);
  EXPECT_EQ(budget.use().parts.size(), 1U);
  budget.reserve(40, "activations");
  EXPECT_EQ(budget.use().used_bytes, 100U);
}

TEST(MemoryBudget, SizesNearTheLargestNumberDoNotWrapAround) {
  MemoryBudget budget(100);
  budget.reserve(60, "ring");
  for (const std::size_t size : {std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max() - 59})
    EXPECT_EQ(catch_error([&] { budget.reserve(size, "huge"); }).code(), ErrorCode::out_of_device_memory);
}

}  // namespace
}  // namespace lamina::testing
