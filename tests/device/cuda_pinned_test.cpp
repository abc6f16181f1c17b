#include <gtest/gtest.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/system_file.h"
#include "device/cuda/cuda_device.h"

namespace lamina::testing {
namespace {

constexpr std::size_t kPageBytes = 4096;

std::optional<std::int64_t> vmstat(const std::string& text, std::string_view field) {
  const auto value = find_system_field(text, field);
  std::int64_t number = 0;
  if (!value || std::from_chars(value->begin(), value->end(), number).ec != std::errc()) return std::nullopt;
  return number;
}

/// Bytes of pages that drivers of this machine have pinned now; nullopt where the kernel does not tell, or does not let
/// this process sum up what the processors have counted each for itself.
std::optional<std::size_t> pinned_by_drivers() {
  std::string ignored;
  std::ifstream refresh("/proc/sys/vm/stat_refresh");
  std::getline(refresh, ignored);
  const auto text = read_system_file("/proc/vmstat");
  if (!refresh.eof() || !text) return std::nullopt;
  const auto acquired = vmstat(*text, "nr_foll_pin_acquired");
  const auto released = vmstat(*text, "nr_foll_pin_released");
  if (!acquired || !released) return std::nullopt;
  return static_cast<std::size_t>(*acquired - *released) * kPageBytes;
}

TEST(CudaPinnedMemory, LocksWhatItBooksWithinAPageEachAndGivesAllOfItBack) {
  constexpr std::array<std::size_t, 5> kOddSizes{1, 4097, 12'345, 3'000'001, 436'212'225};
  const auto device = create_cuda_device();
  device->allocate_pinned(1, "test");  // whatever the driver keeps for itself is there now
  const auto start = pinned_by_drivers();
  if (!start) GTEST_SKIP() << "the kernel's pin counters cannot be read here";
  {
    std::vector<PinnedBuffer> buffers;
    std::size_t booked = 0;
    for (const std::size_t size : kOddSizes) {
      buffers.push_back(device->allocate_pinned(size, "weights"));
      booked += size;
      EXPECT_EQ(device->pinned_bytes(), booked);
      const std::size_t locked = *pinned_by_drivers() - *start;
      EXPECT_GE(locked, booked);
      EXPECT_LT(locked, booked + buffers.size() * kPageBytes);
    }
    buffers.erase(buffers.begin() + 3);
    EXPECT_EQ(*pinned_by_drivers() - *start, 4096 + 8192 + 16'384 + align_up(436'212'225, kPageBytes));
  }
  EXPECT_EQ(*pinned_by_drivers(), *start);
  EXPECT_EQ(device->pinned_bytes(), 0U);
}

}  // namespace
}  // namespace lamina::testing
