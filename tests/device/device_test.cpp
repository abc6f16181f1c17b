#include "device/device.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "catch_error.h"
#include "device/event.h"
#include "device/stream.h"

namespace lamina::testing {
namespace {

/// A root without control groups or /proc: only explicit limits refuse.
std::shared_ptr<HostMemoryBudget> host_budget(std::optional<std::size_t> limit_bytes = {}) {
  return std::make_shared<HostMemoryBudget>(limit_bytes, "/no/such/root");
}

/// A device whose system calls fail where asked to, and which writes down the others.
class ScriptedDevice final : public Device {
 public:
  explicit ScriptedDevice(std::shared_ptr<HostMemoryBudget> host = host_budget())
      : Device(DeviceKind::cpu, "scripted", 1000, std::move(host)) {}

  std::unique_ptr<Stream> create_stream(std::string) override { return nullptr; }
  std::unique_ptr<Event> create_event(std::string) override { return nullptr; }

  std::size_t registered_bytes() const {
    std::size_t size = 0;
    for (const auto& [data, size_bytes] : registrations) size += size_bytes;
    return size;
  }

  std::byte* last_mapped = nullptr;
  bool refuses = false;
  std::size_t fail_registration = 0;  ///< the k-th from now
  std::vector<std::string> calls;
  std::map<std::byte*, std::size_t> registrations;  ///< those that hold

 private:
  std::byte* do_allocate(std::size_t) override {
    if (refuses) fail(ErrorCode::out_of_device_memory, "refused");
    calls.push_back("allocate");
    return memory_;
  }
  void do_free(std::byte* data, std::size_t) noexcept override { calls.push_back(data == memory_ ? "free" : "free?"); }
  void do_register(std::byte* data, std::size_t size_bytes) override {
    last_mapped = data;
    if (refuses || (fail_registration > 0 && --fail_registration == 0)) fail(ErrorCode::device, "refused");
    calls.push_back("register");
    registrations[data] = size_bytes;
  }
  bool do_unregister(std::byte* data, std::size_t size_bytes) noexcept override {
    if (refuses) return false;
    calls.push_back(registrations[data] == size_bytes ? "unregister" : "unregister?");
    registrations.erase(data);
    return true;
  }

  std::byte memory_[1000];
};

TEST(Device, ABookingIsTakenBackWhenTheAllocationFails) {
  ScriptedDevice device;
  device.refuses = true;
  EXPECT_EQ(catch_error([&] { device.allocate(900, "ring"); }).code(), ErrorCode::out_of_device_memory);
  EXPECT_EQ(device.memory().use().used_bytes, 0U);
  device.refuses = false;
  EXPECT_EQ(device.allocate(900, "ring").size_bytes(), 900U);
  EXPECT_EQ(device.calls, (std::vector<std::string>{"allocate", "free"}));
}

TEST(Device, MemoryThatCannotBeRegisteredIsNotPinned) {
  ScriptedDevice device;
  device.refuses = true;
  EXPECT_EQ(catch_error([&] { device.allocate_pinned(900, "test"); }).code(), ErrorCode::device);
  EXPECT_EQ(device.pinned_bytes(), 0U);
  EXPECT_EQ(device.host_memory().use().used_bytes, 0U);
  EXPECT_TRUE(device.calls.empty());
}

/// Whether the page at `address` is mapped.
bool is_mapped(std::byte* address) {
  unsigned char resident = 0;
  return ::mincore(address, 1, &resident) == 0;
}

TEST(Device, PinnedStoresLockExactlyWhatTheyBook) {
  constexpr std::array<std::size_t, 5> kOddSizes{1, 4095, 4097, 12'345, 3'000'001};
  ScriptedDevice device;
  std::vector<PinnedBuffer> stores;
  std::size_t expected = 0;
  for (const std::size_t size : kOddSizes) {
    stores.push_back(device.allocate_pinned(size, "weights"));
    expected += size;
    EXPECT_EQ(device.registered_bytes(), expected);
    EXPECT_EQ(device.host_memory().use().used_bytes, expected);
    EXPECT_EQ(device.pinned_bytes(), expected);
  }
  EXPECT_EQ(device.registrations.size(), kOddSizes.size());
  stores.erase(stores.begin() + 2);
  for (const std::size_t bytes :
       {device.registered_bytes(), device.host_memory().use().used_bytes, device.pinned_bytes()})
    EXPECT_EQ(bytes, expected - 4097);
  stores.clear();
  EXPECT_TRUE(device.registrations.empty());
  EXPECT_EQ(device.host_memory().use().used_bytes, 0U);
  EXPECT_EQ(device.host_memory().use().peak_bytes, expected);
  EXPECT_EQ(device.pinned_bytes(), 0U);
}

TEST(Device, MemoryThatStaysLockedStaysMappedAndBooked) {
  ScriptedDevice device;
  std::byte* data = nullptr;
  {
    const PinnedBuffer buffer = device.allocate_pinned(900, "test");
    data = buffer.data();
    device.refuses = true;
  }
  EXPECT_TRUE(is_mapped(data));
  EXPECT_EQ(device.pinned_bytes(), 900U);
  EXPECT_EQ(device.host_memory().use().used_bytes, 900U);
  EXPECT_EQ(::munmap(data, 900), 0);
}

TEST(Device, AFailedRegistrationIsUnbookedAndUnmappedWhicheverItIs) {
  constexpr std::size_t kSize = 40'001;
  for (std::size_t k = 1; k <= 5; ++k) {
    ScriptedDevice device;
    device.fail_registration = k;
    std::vector<PinnedBuffer> stores;
    const auto pin_five = [&] {
      for (int i = 0; i < 5; ++i) stores.push_back(device.allocate_pinned(kSize, "weights"));
    };
    EXPECT_EQ(catch_error(pin_five).code(), ErrorCode::device);
    EXPECT_EQ(stores.size(), k - 1);
    EXPECT_EQ(device.registered_bytes(), (k - 1) * kSize);
    EXPECT_EQ(device.host_memory().use().used_bytes, (k - 1) * kSize);
    EXPECT_EQ(device.pinned_bytes(), (k - 1) * kSize);
    EXPECT_FALSE(is_mapped(device.last_mapped));
    stores.clear();
    EXPECT_EQ(device.host_memory().use().used_bytes, 0U);
    EXPECT_TRUE(device.registrations.empty());
  }
}

TEST(Device, TheHostBudgetRefusesBeforeAnythingIsMapped) {
  ScriptedDevice device(host_budget(1000));
  const PinnedBuffer staging = device.allocate_pinned(300, "staging");
  const Error error = catch_error([&] { device.allocate_pinned(701, "weights"); });
  EXPECT_EQ(error.code(), ErrorCode::out_of_host_memory);
  for (const char* text : {"701 B asked for 'weights'", "staging 300 B", "1000 B allowed by --host-memory-limit"})
    EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
  EXPECT_EQ(device.registered_bytes(), 300U);
  EXPECT_EQ(device.allocate_pinned(700, "weights").size_bytes(), 700U);
}

TEST(Device, PinnedMemoryIsReallyGivenBackToTheSystem) {
  if (!read_process_memory()) GTEST_SKIP() << "no smaps_rollup on this machine";
  constexpr std::size_t kNoise = 8 * kMiB;  // the heap of this process moves as well
  ScriptedDevice device;
  const std::size_t before = read_process_memory()->private_dirty_bytes;
  {
    const PinnedBuffer buffer = device.allocate_pinned(64 * kMiB, "weights");
    std::memset(buffer.data(), 1, buffer.size_bytes());
    EXPECT_GE(read_process_memory()->private_dirty_bytes + kNoise, before + 64 * kMiB);
  }
  EXPECT_LE(read_process_memory()->private_dirty_bytes, before + kNoise);
}

TEST(Device, PinnedMemoryTheSystemDoesNotHaveIsAnError) {
  ScriptedDevice device;
  const Error error = catch_error([&] { device.allocate_pinned(std::size_t{1} << 60, "test"); });
  EXPECT_EQ(error.code(), ErrorCode::out_of_host_memory);
  EXPECT_NE(error.message().find("1073741824.00 GiB"), std::string::npos) << error.message();
  EXPECT_EQ(device.pinned_bytes(), 0U);
}

TEST(Device, BuffersAreFreedOnceHoweverTheyMove) {
  ScriptedDevice device;
  {
    DeviceBuffer first = device.allocate(10, "ring");
    DeviceBuffer second = std::move(first);
    PinnedBuffer pinned = device.allocate_pinned(10, "test");
    PinnedBuffer pinned_second;
    pinned_second = std::move(pinned);
    EXPECT_EQ(first.data(), nullptr);   // NOLINT(bugprone-use-after-move): moved-from owners are empty
    EXPECT_EQ(pinned.data(), nullptr);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(device.calls, (std::vector<std::string>{"allocate", "register"}));
  }
  EXPECT_EQ(device.calls, (std::vector<std::string>{"allocate", "register", "unregister", "free"}));
}

}  // namespace
}  // namespace lamina::testing
