#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "device/cpu/cpu_stream.h"
#include "device/event.h"
#include "device/stream.h"

namespace lamina::testing {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

/// A nanosecond a byte; launches cost what their name says.
nanoseconds cost(std::string_view, std::string_view work, std::size_t size_bytes) {
  static const std::map<std::string_view, int> launches{{"unit 0", 30}, {"unit 1", 150}, {"unit 2", 40}};
  const auto launch = launches.find(work);
  return nanoseconds(launch != launches.end() ? launch->second : static_cast<int>(size_bytes));
}

class VirtualTime : public ::testing::Test {
 protected:
  void launch(std::string_view name) {
    cpu::launch(*compute_, {name, {}, {}}, [] {});
  }
  void fetch(std::size_t size_bytes) { copy_->copy_to_device_async(memory_.data(), host_.data(), size_bytes, "fetch"); }
  Event& record(Stream& stream) {
    events_.push_back(device_->create_event("point"));
    stream.record(*events_.back());
    return *events_.back();
  }
  static std::int64_t time(Event& event) {
    event.synchronize();
    return event.time().count();
  }

  std::unique_ptr<Device> device_ =
      create_cpu_device({.memory_limit_bytes = std::nullopt, .host_memory = {}, .virtual_cost = cost, .faults = {}});
  DeviceBuffer memory_ = device_->allocate(1000, "memory");
  PinnedBuffer host_ = device_->allocate_pinned(1000, "test");
  std::vector<std::unique_ptr<Event>> events_;
  std::unique_ptr<Stream> compute_ = device_->create_stream("compute");
  std::unique_ptr<Stream> copy_ = device_->create_stream("copy");
};

/// Three units of 100 bytes through two slots. By hand:
///   copy:     fetch 0 [0, 100), fetch 1 [100, 200), behind free 0 (130): fetch 2 [200, 300)
///   compute:  behind ready 0: unit 0 [100, 130); behind ready 1: unit 1 [200, 350); ready 2 was: unit 2 [350, 390)
TEST_F(VirtualTime, TellsTheHandComputedTimesWhateverTheThreadsDo) {
  std::minstd_rand random(7);
  for (int run = 0; run < 10; ++run) {
    std::vector<microseconds> sleeps(16);
    for (microseconds& sleep : sleeps) sleep = microseconds(random() % 2000);
    std::atomic<std::size_t> next = 0;
    set_cpu_faults(*device_, {.delay = [&](auto, auto) -> nanoseconds { return sleeps[next++ % sleeps.size()]; },
                              .fail_allocation = 0,
                              .fail_copy = 0,
                              .drop_wait = {}});
    const std::int64_t start = time(record(*compute_));
    fetch(100);
    Event& ready0 = record(*copy_);
    fetch(100);
    Event& ready1 = record(*copy_);
    compute_->wait(ready0);
    launch("unit 0");
    Event& free0 = record(*compute_);
    copy_->wait(free0);
    fetch(100);
    Event& ready2 = record(*copy_);
    compute_->wait(ready1);
    Event& begin1 = record(*compute_);
    launch("unit 1");
    compute_->wait(ready2);
    launch("unit 2");
    Event& end = record(*compute_);

    EXPECT_EQ(time(end) - start, 390);
    EXPECT_EQ(time(ready0) - start, 100);
    EXPECT_EQ(time(ready1) - start, 200);
    EXPECT_EQ(time(free0) - start, 130);
    EXPECT_EQ(time(ready2) - start, 300);
    EXPECT_EQ(time(begin1) - start, 200);
    EXPECT_EQ(start, run * 390);
    compute_->synchronize();
    copy_->synchronize();
  }
}

TEST_F(VirtualTime, WorkDoesNotBeginBeforeTheHostHasLaunchedIt) {
  launch("unit 1");
  Event& after1 = record(*compute_);
  fetch(10);
  EXPECT_EQ(time(record(*copy_)), 10);
  after1.synchronize();  // the host's clock: 150
  fetch(10);
  EXPECT_EQ(time(record(*copy_)), 160);
  launch("unit 2");
  compute_->synchronize();  // 200
  fetch(10);
  EXPECT_EQ(time(record(*copy_)), 210);
}

TEST_F(VirtualTime, CountsCopiesBothWaysAndFillsByTheirBytes) {
  fetch(3);
  copy_->copy_to_host_async(host_.data(), memory_.data(), 50, "back");
  copy_->fill_async(memory_.data(), 700, std::byte{0}, "fill");
  cpu::launch(*copy_, {"launch of unknown cost", {}, {{memory_.data(), 1000}}}, [] {});
  EXPECT_EQ(time(record(*copy_)), 753);
}

}  // namespace
}  // namespace lamina::testing
