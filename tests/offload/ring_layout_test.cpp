#include "offload/ring_layout.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <vector>

#include "lamina/error.h"

namespace lamina {
namespace {

TEST(RingLayout, PlacesBehindTheNewestAndWraps) {
  RingLayout ring(100);
  EXPECT_EQ(ring.push(40), 0u);
  EXPECT_EQ(ring.push(50), 40u);
  EXPECT_EQ(ring.push(10), 90u);
  EXPECT_EQ(ring.push(1), std::nullopt);
  ring.pop_oldest();
  EXPECT_EQ(ring.push(41), std::nullopt) << "40 bytes are free at the start";
  EXPECT_EQ(ring.push(40), 0u);
}

TEST(RingLayout, SkipsAnEndThatIsTooShort) {
  RingLayout ring(100);
  EXPECT_EQ(ring.push(60), 0u);
  EXPECT_EQ(ring.push(30), 60u);
  EXPECT_EQ(ring.push(20), std::nullopt);
  ring.pop_oldest();
  EXPECT_EQ(ring.push(20), 0u);
  EXPECT_EQ(ring.push(40), 20u);
}

TEST(RingLayout, OfTwoHalvesAlternates) {
  RingLayout ring(20);
  ASSERT_EQ(ring.push(10), 0u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ring.push(10), 10u);
    ring.pop_oldest();
    EXPECT_EQ(ring.push(10), 0u);
    ring.pop_oldest();
  }
}

TEST(RingLayout, BeginsAtZeroWhenEmpty) {
  RingLayout ring(100);
  EXPECT_EQ(ring.push(30), 0u);
  ring.pop_oldest();
  EXPECT_EQ(ring.push(100), 0u);
  ring.pop_newest();
  EXPECT_TRUE(ring.occupants().empty());
  EXPECT_EQ(ring.push(5), 0u);
}

TEST(RingLayout, RefusesMisuse) {
  RingLayout ring(100);
  EXPECT_THROW(ring.push(0), Error);
  EXPECT_THROW(ring.push(101), Error);
  EXPECT_THROW(ring.pop_oldest(), Error);
  EXPECT_THROW(ring.pop_newest(), Error);
}

TEST(RingLayout, HoldsAsManyEqualOccupantsAsFit) {
  for (std::size_t capacity = 10; capacity < 60; ++capacity) {
    RingLayout ring(capacity);
    for (int round = 0; round < 50; ++round) {
      while (ring.push(10)) continue;
      ASSERT_EQ(ring.occupants().size(), capacity / 10) << capacity;
      ring.pop_oldest();
    }
  }
}

/// Whether each byte of the ring is occupied; throws where two occupants share one.
class ByteMap {
 public:
  explicit ByteMap(std::size_t capacity) : occupied_(capacity, false) {}

  bool is_free(std::size_t offset, std::size_t size) const {
    for (std::size_t i = offset; i < offset + size; ++i)
      if (occupied_.at(i)) return false;
    return true;
  }
  void mark(const RingLayout::Occupant& occupant, bool occupied) {
    for (std::size_t i = occupant.offset; i < occupant.offset + occupant.size_bytes; ++i) occupied_.at(i) = occupied;
  }

 private:
  std::vector<bool> occupied_;
};

TEST(RingLayout, NeverOverlapsAndKeepsTheOrder) {
  std::mt19937 random(7);
  for (std::size_t capacity = 1; capacity < 40; ++capacity) {
    RingLayout ring(capacity);
    ByteMap bytes(capacity);
    std::deque<RingLayout::Occupant> expected;
    for (int i = 0; i < 400; ++i) {
      const std::size_t size = 1 + random() % capacity;
      const std::size_t behind = expected.empty() ? 0 : expected.back().offset + expected.back().size_bytes;
      const std::size_t place = behind + size <= capacity ? behind : 0;
      if (const auto offset = ring.push(size)) {
        ASSERT_EQ(*offset, place);
        ASSERT_TRUE(bytes.is_free(*offset, size));
        expected.push_back({*offset, size});
        bytes.mark(expected.back(), true);
      } else {
        ASSERT_FALSE(bytes.is_free(place, size)) << "refused although there was room";
      }
      while (!expected.empty() && random() % 2 == 0) {
        const bool newest = random() % 4 == 0;
        bytes.mark(newest ? expected.back() : expected.front(), false);
        newest ? ring.pop_newest() : ring.pop_oldest();
        newest ? expected.pop_back() : expected.pop_front();
      }
      ASSERT_EQ(ring.occupants().size(), expected.size());
      for (std::size_t k = 0; k < expected.size(); ++k) {
        ASSERT_EQ(ring.occupants()[k].offset, expected[k].offset);
        ASSERT_EQ(ring.occupants()[k].size_bytes, expected[k].size_bytes);
      }
    }
  }
}

TEST(RingLayout, TakesAPushBack) {
  std::mt19937 random(11);
  RingLayout ring(50);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t size = 1 + random() % 50;
    const auto first = ring.push(size);
    if (first) {
      if (ring.push(1)) ring.pop_newest();
      ring.pop_newest();
      ASSERT_EQ(ring.push(size), first);
    }
    while (!ring.occupants().empty() && random() % 3 != 0) ring.pop_oldest();
  }
}

}  // namespace
}  // namespace lamina
