#include "device/device.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "catch_error.h"
#include "device/event.h"
#include "device/stream.h"

namespace lamina::testing {
namespace {

/// A device whose system calls fail where asked to, and which writes down the others.
class ScriptedDevice final : public Device {
 public:
  ScriptedDevice() : Device(DeviceKind::cpu, "scripted", 1000) {}

  std::unique_ptr<Stream> create_stream(std::string) override { return nullptr; }
  std::unique_ptr<Event> create_event(std::string) override { return nullptr; }

  bool refuses = false;
  std::vector<std::string> calls;

 private:
  std::byte* do_allocate(std::size_t) override {
    if (refuses) fail(ErrorCode::out_of_device_memory, "refused");
    calls.push_back("allocate");
    return memory_;
  }
  void do_free(std::byte* data, std::size_t) noexcept override { calls.push_back(data == memory_ ? "free" : "free?"); }
  void do_register(std::byte*, std::size_t) override {
    if (refuses) fail(ErrorCode::device, "refused");
    calls.push_back("register");
  }
  void do_unregister(std::byte*, std::size_t) noexcept override { calls.push_back("unregister"); }

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
  EXPECT_EQ(catch_error([&] { device.allocate_pinned(900); }).code(), ErrorCode::device);
  EXPECT_EQ(device.pinned_bytes(), 0U);
  EXPECT_TRUE(device.calls.empty());
}

TEST(Device, PinnedMemoryTheSystemDoesNotHaveIsAnError) {
  ScriptedDevice device;
  const Error error = catch_error([&] { device.allocate_pinned(std::size_t{1} << 60); });
  EXPECT_EQ(error.code(), ErrorCode::out_of_host_memory);
  EXPECT_NE(error.message().find("1073741824.00 GiB"), std::string::npos) << error.message();
  EXPECT_EQ(device.pinned_bytes(), 0U);
}

TEST(Device, BuffersAreFreedOnceHoweverTheyMove) {
  ScriptedDevice device;
  {
    DeviceBuffer first = device.allocate(10, "ring");
    DeviceBuffer second = std::move(first);
    PinnedBuffer pinned = device.allocate_pinned(10);
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
