#include "device/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "catch_error.h"
#include "device/event.h"
#include "device/stream.h"

namespace lamina::testing {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

constexpr std::array<std::size_t, 5> kOddSizes{1, 4095, 4097, 12'345, 3'000'001};

/// Bytes that differ from place to place and from seed to seed.
std::vector<std::byte> pattern(std::size_t size_bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size_bytes);
  for (std::byte& byte : bytes) byte = std::byte(random() & 0xFF);
  return bytes;
}

/// The bytes of `memory`, through pinned memory.
std::vector<std::byte> read_back(Device& device, Stream& stream, const DeviceBuffer& memory) {
  const PinnedBuffer host = device.allocate_pinned(memory.size_bytes(), "test");
  stream.copy_to_host_async(host.data(), memory.data(), memory.size_bytes(), "read back");
  stream.synchronize();
  return {host.data(), host.data() + host.size_bytes()};
}

nanoseconds time_of(Stream& stream, Event& event) {
  stream.record(event);
  event.synchronize();
  return event.time();
}

TEST(CudaDevice, ADeviceThatIsNotThereIsRefusedWithTheNumberFound) {
  const Error error = catch_error([] { create_cuda_device({.index = 1000}); });
  EXPECT_EQ(error.code(), ErrorCode::unavailable);
  EXPECT_THAT(error.message(), HasSubstr("cuda:1000: there is no such device"));
  EXPECT_THAT(error.message(), HasSubstr("found"));
  EXPECT_EQ(cuda_unavailable_reason(), "");
}

TEST(CudaDevice, MayUseWhatIsFree) {
  const auto device = create_cuda_device({});
  const MemoryUse use = device->memory().use();
  ASSERT_TRUE(use.limit_bytes.has_value());
  EXPECT_EQ(use.limit_source, "the GPU's free memory");
  const Error error = catch_error([&] { device->allocate(*use.limit_bytes + 1, "ring"); });
  EXPECT_EQ(error.code(), ErrorCode::out_of_device_memory);
  EXPECT_THAT(error.message(), HasSubstr("allowed by the GPU's free memory"));

  const DeviceBuffer most = device->allocate(*use.limit_bytes, "most");
  const auto later = create_cuda_device({.memory_limit_bytes = kGiB});
  EXPECT_LT(*later->memory().use().limit_bytes, kGiB) << "an explicit limit makes no memory";
  EXPECT_EQ(*create_cuda_device({.memory_limit_bytes = 1000})->memory().use().limit_bytes,
            std::min(std::size_t{1000}, *later->memory().use().limit_bytes));
}

TEST(CudaDevice, GoesOnAfterRunningOutOfMemory) {
  // Each delay is a kernel, whose launch is refused where an earlier call left its error behind.
  const auto device = create_cuda_device({.delay = [](auto, auto) { return microseconds(1); }});
  const auto stream = device->create_stream("copy");
  const auto other = create_cuda_device({});
  const DeviceBuffer taken = other->allocate(*other->memory().use().limit_bytes, "taken by another one meanwhile");
  for (int round = 0; round < 3; ++round) {
    const Error error = catch_error([&] { device->allocate(kGiB, "ring"); });
    EXPECT_EQ(error.code(), ErrorCode::out_of_device_memory);
    EXPECT_THAT(error.message(), HasSubstr("1.00 GiB of device memory asked for, cuda:0 has "));
    EXPECT_THAT(error.message(), HasSubstr("out of memory"));
    EXPECT_EQ(device->memory().use().used_bytes, 0U);

    const DeviceBuffer memory = device->allocate(1000, "ring");
    stream->fill_async(memory.data(), 1000, std::byte(round), "fill");
    EXPECT_EQ(read_back(*device, *stream, memory), std::vector<std::byte>(1000, std::byte(round)));
  }
}

TEST(CudaDevice, MemoryOfOddSizesIsBookedExactlyAndHoldsEveryByte) {
  const auto device = create_cuda_device();
  const auto stream = device->create_stream("copy");
  std::vector<DeviceBuffer> buffers;
  std::size_t booked = 0;
  for (const std::size_t size : kOddSizes) {
    buffers.push_back(device->allocate(size, "memory"));
    booked += size;
    EXPECT_EQ(device->memory().use().used_bytes, booked);
  }
  std::vector<PinnedBuffer> sources;
  for (std::size_t i = 0; i < kOddSizes.size(); ++i) {
    sources.push_back(device->allocate_pinned(kOddSizes[i], "test"));
    const auto bytes = pattern(kOddSizes[i], static_cast<unsigned>(i));
    std::memcpy(sources[i].data(), bytes.data(), bytes.size());
    stream->copy_to_device_async(buffers[i].data(), sources[i].data(), kOddSizes[i], "fetch");
  }
  for (std::size_t i = 0; i < kOddSizes.size(); ++i)
    EXPECT_EQ(read_back(*device, *stream, buffers[i]), pattern(kOddSizes[i], static_cast<unsigned>(i)));
}

TEST(CudaDevice, EventsTellTheTimeOfTheWallClockHoweverLongItRuns) {
  const auto device = create_cuda_device();
  const auto stream = device->create_stream("a");
  const auto other = device->create_stream("b");
  const auto first = device->create_event("first");
  const nanoseconds begin = time_of(*stream, *first);
  const auto wall_begin = steady_clock::now();
  nanoseconds previous = begin;
  for (int round = 0; round < 6; ++round) {
    std::this_thread::sleep_for(milliseconds(600));
    const auto event = device->create_event("event");
    const nanoseconds time = time_of(round % 2 == 0 ? *other : *stream, *event);
    const auto wall = duration_cast<nanoseconds>(steady_clock::now() - wall_begin);
    EXPECT_GE(time, previous + milliseconds(599));  // the two clocks drift
    EXPECT_NEAR(static_cast<double>((time - begin).count()), static_cast<double>(wall.count()), 20e6);
    previous = time;
  }
  // The first event is now far before the clock's anchor.
  EXPECT_NEAR(static_cast<double>(first->time().count()), static_cast<double>(begin.count()), 2e3);
}

TEST(CudaDevice, TheTimeOfAPointNotReachedIsRefused) {
  const auto device = create_cuda_device({.delay = [](auto, auto) { return milliseconds(50); }});
  const auto stream = device->create_stream("a");
  const auto event = device->create_event("point");
  EXPECT_EQ(catch_error([&] { static_cast<void>(event->time()); }).code(), ErrorCode::internal);
  const DeviceBuffer memory = device->allocate(8, "memory");
  const PinnedBuffer host = device->allocate_pinned(8, "test");
  stream->copy_to_device_async(memory.data(), host.data(), 8, "fetch");
  stream->record(*event);
  EXPECT_EQ(catch_error([&] { static_cast<void>(event->time()); }).code(), ErrorCode::internal);
  event->synchronize();
  EXPECT_GT(event->time().count(), 0);
}

TEST(CudaDevice, DelaysHoldUpCopiesAndWaitsOfTheNamesAskedFor) {
  constexpr milliseconds kDelay{40};
  const auto device = create_cuda_device({.delay = [&](std::string_view stream, std::string_view work) {
    return stream == "copy" && (work == "slow" || work == "slow event") ? nanoseconds(kDelay) : nanoseconds(0);
  }});
  const auto copy = device->create_stream("copy");
  const auto compute = device->create_stream("compute");
  const DeviceBuffer memory = device->allocate(8, "memory");
  const PinnedBuffer host = device->allocate_pinned(8, "test");
  const auto point = device->create_event("slow event");
  compute->record(*point);
  const auto begin = device->create_event("begin");
  const auto end = device->create_event("end");
  const auto took = [&](Stream& stream, auto enqueue) {
    const auto called = steady_clock::now();
    stream.record(*begin);
    enqueue();
    stream.record(*end);
    EXPECT_LT(steady_clock::now() - called, kDelay / 2) << "the host waited";
    end->synchronize();
    return end->time() - begin->time();
  };
  const auto fetch = [&](Stream& stream, std::string_view label) {
    return took(stream, [&] { stream.copy_to_device_async(memory.data(), host.data(), 8, label); });
  };
  EXPECT_LT(fetch(*copy, "quick"), kDelay);
  EXPECT_GE(fetch(*copy, "slow"), kDelay);
  EXPECT_LT(fetch(*compute, "slow"), kDelay);
  EXPECT_GE(took(*copy, [&] { copy->wait(*point); }), kDelay);
  EXPECT_LT(took(*compute, [&] { compute->wait(*point); }), kDelay);
}

/// Units through a ring of two slots on two streams: what comes out at the other end, with random delays or without.
std::vector<std::byte> stream_units(bool with_delays) {
  constexpr std::size_t kUnits = 24;
  constexpr std::size_t kUnitBytes = 100'003;
  std::mt19937 random(5);
  CudaDeviceOptions options;
  if (with_delays) options.delay = [&](auto, auto) { return microseconds(random() % 3000); };
  const auto device = create_cuda_device(options);
  const auto copy = device->create_stream("copy");
  const auto compute = device->create_stream("compute");
  const PinnedBuffer weights = device->allocate_pinned(kUnits * kUnitBytes, "weights");
  const auto bytes = pattern(weights.size_bytes(), 1);
  std::memcpy(weights.data(), bytes.data(), bytes.size());
  const PinnedBuffer results = device->allocate_pinned(kUnits * kUnitBytes, "results");
  std::array<DeviceBuffer, 2> slots{device->allocate(kUnitBytes, "ring"), device->allocate(kUnitBytes, "ring")};
  for (const DeviceBuffer& slot : slots) device->order().watch({slot.data(), kUnitBytes}, "slot");
  const std::array<std::unique_ptr<Event>, 2> ready{device->create_event("ready"), device->create_event("ready")};
  const std::array<std::unique_ptr<Event>, 2> free{device->create_event("free"), device->create_event("free")};
  for (std::size_t unit = 0; unit < kUnits; ++unit) {
    const std::size_t slot = unit % 2;
    copy->wait(*free[slot]);
    copy->copy_to_device_async(slots[slot].data(), weights.data() + unit * kUnitBytes, kUnitBytes, "fetch");
    copy->record(*ready[slot]);
    compute->wait(*ready[slot]);
    compute->copy_to_host_async(results.data() + unit * kUnitBytes, slots[slot].data(), kUnitBytes, "use");
    compute->record(*free[slot]);
  }
  compute->synchronize();
  EXPECT_EQ(std::memcmp(results.data(), bytes.data(), bytes.size()), 0);
  return {results.data(), results.data() + results.size_bytes()};
}

TEST(CudaDevice, DelaysChangeNoByteOfWhatIsStreamed) {
  const auto expected = stream_units(false);
  for (int run = 0; run < 3; ++run) EXPECT_EQ(stream_units(true), expected);
}

TEST(CudaDevice, WorkOfTheHostFillsStagingForACopyBehindIt) {
  constexpr std::size_t kSize = 1'000'001;
  const auto device = create_cuda_device();
  const auto packer = device->create_stream("packer");
  const auto copy = device->create_stream("copy");
  const auto packed = device->create_event("packed");
  const auto copied = device->create_event("copied");
  const PinnedBuffer staging = device->allocate_pinned(kSize, "staging");
  const DeviceBuffer memory = device->allocate(kSize, "memory");
  for (unsigned round = 0; round < 20; ++round) {
    packer->wait(*copied);
    packer->run_on_host_async({"pack", {}, {{staging.data(), kSize}}}, [&, round] {
      const auto bytes = pattern(kSize, round);
      std::memcpy(staging.data(), bytes.data(), kSize);
    });
    packer->record(*packed);
    copy->wait(*packed);
    copy->copy_to_device_async(memory.data(), staging.data(), kSize, "fetch");
    copy->record(*copied);
  }
  packer->synchronize();
  EXPECT_EQ(read_back(*device, *copy, memory), pattern(kSize, 19));
}

TEST(CudaDevice, HostWorkBehindAnErrorIsSkippedUntilTheErrorIsThrown) {
  const auto device = create_cuda_device();
  const auto stream = device->create_stream("packer");
  const auto captured = std::make_shared<std::vector<int>>();
  stream->run_on_host_async({"first", {}, {}}, [captured] { captured->push_back(1); });
  stream->run_on_host_async({"broken", {}, {}}, [captured] { throw std::runtime_error("planted"); });
  stream->run_on_host_async({"skipped", {}, {}}, [captured] { captured->push_back(2); });
  const Error error = catch_error([&] { stream->synchronize(); });
  EXPECT_EQ(error.code(), ErrorCode::device);
  EXPECT_EQ(error.message(), "'broken' failed: planted");
  EXPECT_EQ(*captured, (std::vector<int>{1}));
  EXPECT_EQ(captured.use_count(), 1);
  stream->run_on_host_async({"again", {}, {}}, [captured] { captured->push_back(3); });
  EXPECT_NO_THROW(stream->synchronize());
  EXPECT_EQ(*captured, (std::vector<int>{1, 3}));
}

TEST(CudaDevice, DevicesOfOneGpuWorkInThreadsOfTheirOwn) {
  std::vector<std::future<void>> ranks;
  for (unsigned rank = 0; rank < 4; ++rank)
    ranks.push_back(std::async(std::launch::async, [rank] {
      const auto device = create_cuda_device();
      const auto stream = device->create_stream("rank");
      const DeviceBuffer memory = device->allocate(100'000, "memory");
      const PinnedBuffer host = device->allocate_pinned(100'000, "test");
      const auto bytes = pattern(100'000, rank);
      std::memcpy(host.data(), bytes.data(), bytes.size());
      for (int round = 0; round < 20; ++round)
        stream->copy_to_device_async(memory.data(), host.data(), bytes.size(), "fetch");
      EXPECT_EQ(read_back(*device, *stream, memory), bytes);
    }));
  for (std::future<void>& rank : ranks) rank.get();
}

/// Bytes a second of copies of `source` to the device.
double rate(Device& device, Stream& stream, const DeviceBuffer& memory, const std::byte* source) {
  const auto begin = device.create_event("begin");
  const auto end = device.create_event("end");
  std::vector<double> seconds;
  for (int round = 0; round < 7; ++round) {
    stream.record(*begin);
    stream.copy_to_device_async(memory.data(), source, memory.size_bytes(), "fetch");
    stream.record(*end);
    end->synchronize();
    seconds.push_back(std::chrono::duration<double>(end->time() - begin->time()).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + 3, seconds.end());
  return static_cast<double>(memory.size_bytes()) / seconds[3];
}

TEST(CudaDevice, CopiesPinnedMemoryAtTheRateOfTheLink) {
  constexpr std::size_t kSize = 256 * kMiB + 1;
  const auto device = create_cuda_device();
  const auto stream = device->create_stream("copy");
  const DeviceBuffer memory = device->allocate(kSize, "memory");
  const PinnedBuffer pinned = device->allocate_pinned(kSize, "test");
  const std::vector<std::byte> pageable(kSize);
  const double pinned_rate = rate(*device, *stream, memory, pinned.data());
  const double pageable_rate = rate(*device, *stream, memory, pageable.data());
  std::printf("copies to the device: %.2f GB/s from pinned memory, %.2f from pageable memory\n", pinned_rate / 1e9,
              pageable_rate / 1e9);
  EXPECT_GT(pinned_rate, 1.5 * pageable_rate);
}

}  // namespace
}  // namespace lamina::testing
