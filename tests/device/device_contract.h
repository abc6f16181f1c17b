#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "catch_error.h"
#include "device/device.h"
#include "device/event.h"
#include "device/stream.h"

namespace lamina::testing {

using ::testing::Each;
using ::testing::HasSubstr;

/// What every Device promises. Another device joins by a factory:
///
///   static std::unique_ptr<Device> create(std::optional<std::size_t> memory_limit_bytes = {});
///   static std::function<void()> block(Stream&);   // enqueues work that lasts until the result is called
///   static void enqueue_failure(Stream&);          // enqueues work that fails
///   static constexpr bool kSkipsDeviceWorkBehindAnError;  // a GPU can only leave out the host's work
///
/// and INSTANTIATE_TYPED_TEST_SUITE_P(Name, DeviceContract, Factory).
template <typename Factory>
class DeviceContract : public ::testing::Test {
 protected:
  static constexpr std::size_t kSize = 1000;

  std::function<void()> block(Stream& stream) { return Factory::block(stream); }

  void fill(Stream& stream, int value) { stream.fill_async(memory_.data(), kSize, std::byte(value), "fill"); }

  /// Enqueues a copy of the device memory to the host.
  void fetch(Stream& stream) { stream.copy_to_host_async(host_.data(), memory_.data(), kSize, "fetch"); }

  std::vector<int> fetched() const {
    std::vector<int> values(kSize);
    std::transform(host_.data(), host_.data() + kSize, values.begin(),
                   [](std::byte byte) { return std::to_integer<int>(byte); });
    return values;
  }

  std::unique_ptr<Device> device_ = Factory::create();
  DeviceBuffer memory_ = device_->allocate(kSize, "memory");
  PinnedBuffer host_ = device_->allocate_pinned(kSize, "test");
  std::unique_ptr<Stream> a_ = device_->create_stream("a");
  std::unique_ptr<Stream> b_ = device_->create_stream("b");
  std::unique_ptr<Stream> c_ = device_->create_stream("c");
  std::unique_ptr<Event> event_ = device_->create_event("event");
};

TYPED_TEST_SUITE_P(DeviceContract);

TYPED_TEST_P(DeviceContract, CopiesBothWays) {
  PinnedBuffer source = this->device_->allocate_pinned(this->kSize, "test");
  for (std::size_t i = 0; i < this->kSize; ++i) source.data()[i] = std::byte(i * 7);
  this->a_->copy_to_device_async(this->memory_.data(), source.data(), this->kSize, "there");
  this->fetch(*this->a_);
  this->a_->synchronize();
  EXPECT_TRUE(std::equal(source.data(), source.data() + this->kSize, this->host_.data()));
}

TYPED_TEST_P(DeviceContract, CopiesWithinTheDevice) {
  PinnedBuffer source = this->device_->allocate_pinned(this->kSize, "test");
  for (std::size_t i = 0; i < this->kSize; ++i) source.data()[i] = std::byte(i * 7);
  DeviceBuffer other = this->device_->allocate(this->kSize, "test");
  this->a_->copy_to_device_async(other.data(), source.data(), this->kSize, "there");
  this->fill(*this->a_, 3);
  this->a_->copy_within_device_async(this->memory_.data() + 50, other.data() + 100, 200, "across");
  this->a_->copy_within_device_async(this->memory_.data(), other.data(), 0, "nothing");
  this->fetch(*this->a_);
  this->a_->synchronize();
  std::vector<int> expected(this->kSize, 3);
  for (std::size_t i = 0; i < 200; ++i) expected[50 + i] = static_cast<int>((100 + i) * 7 % 256);
  EXPECT_EQ(this->fetched(), expected);
}

TYPED_TEST_P(DeviceContract, FillsExactlyTheGivenBytes) {
  this->fill(*this->a_, 3);
  this->a_->fill_async(this->memory_.data() + 10, 20, std::byte{9}, "part");
  this->a_->fill_async(this->memory_.data() + 500, 0, std::byte{8}, "nothing");
  this->fetch(*this->a_);
  this->a_->synchronize();
  std::vector<int> expected(this->kSize, 3);
  std::fill_n(expected.begin() + 10, 20, 9);
  EXPECT_EQ(this->fetched(), expected);
}

TYPED_TEST_P(DeviceContract, WorkOfAStreamRunsInOrder) {
  constexpr std::size_t kRounds = 100;
  PinnedBuffer seen = this->device_->allocate_pinned(kRounds, "test");
  for (std::size_t round = 0; round < kRounds; ++round) {
    this->fill(*this->a_, static_cast<int>(round));
    this->a_->copy_to_host_async(seen.data() + round, this->memory_.data() + round, 1, "look");
  }
  this->a_->synchronize();
  for (std::size_t round = 0; round < kRounds; ++round) EXPECT_EQ(seen.data()[round], std::byte(round));
}

TYPED_TEST_P(DeviceContract, CallsReturnBeforeTheWorkIsDone) {
  const auto release = this->block(*this->a_);
  this->fill(*this->a_, 5);
  this->fetch(*this->a_);
  EXPECT_THAT(this->fetched(), Each(0));
  release();
  this->a_->synchronize();
  EXPECT_THAT(this->fetched(), Each(5));
}

TYPED_TEST_P(DeviceContract, WaitOrdersAStreamBehindAnother) {
  const auto release = this->block(*this->a_);
  this->fill(*this->a_, 5);
  this->a_->record(*this->event_);
  this->b_->wait(*this->event_);
  this->fetch(*this->b_);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_THAT(this->fetched(), Each(0));
  release();
  this->b_->synchronize();
  EXPECT_THAT(this->fetched(), Each(5));
}

TYPED_TEST_P(DeviceContract, AnEventNeverRecordedHoldsNobodyUp) {
  this->b_->wait(*this->event_);
  this->event_->synchronize();
  this->fill(*this->b_, 6);
  this->fetch(*this->b_);
  this->b_->synchronize();
  EXPECT_THAT(this->fetched(), Each(6));
}

TYPED_TEST_P(DeviceContract, AWaitIsNotProlongedByALaterRecord) {
  this->fill(*this->a_, 1);
  this->a_->record(*this->event_);
  this->b_->wait(*this->event_);
  const auto release = this->block(*this->a_);
  this->a_->record(*this->event_);
  this->fetch(*this->b_);
  this->b_->synchronize();
  EXPECT_THAT(this->fetched(), Each(1));
  release();
}

TYPED_TEST_P(DeviceContract, AWaitIsNotShortenedByALaterRecord) {
  const auto release = this->block(*this->a_);
  this->fill(*this->a_, 4);
  this->a_->record(*this->event_);
  this->c_->wait(*this->event_);
  this->b_->record(*this->event_);
  this->event_->synchronize();  // b's record is reached at once
  this->fetch(*this->c_);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_THAT(this->fetched(), Each(0));
  release();
  this->c_->synchronize();
  EXPECT_THAT(this->fetched(), Each(4));
}

TYPED_TEST_P(DeviceContract, TheHostWaitsForTheRecordedPointOnly) {
  const auto release = this->block(*this->a_);
  this->fill(*this->a_, 7);
  this->fetch(*this->a_);
  this->a_->record(*this->event_);
  const auto release_later = this->block(*this->a_);
  std::atomic<bool> released = false;
  std::thread releaser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    released = true;
    release();
  });
  this->event_->synchronize();
  EXPECT_TRUE(released);
  EXPECT_THAT(this->fetched(), Each(7));
  releaser.join();
  release_later();
}

TYPED_TEST_P(DeviceContract, EventsTellTimeOnOneClock) {
  auto later = this->device_->create_event("later");
  this->a_->record(*this->event_);
  const auto release = this->block(*this->a_);
  this->a_->record(*later);
  this->b_->wait(*later);
  auto last = this->device_->create_event("last");
  this->b_->record(*last);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  release();
  last->synchronize();
  EXPECT_GE(later->time() - this->event_->time(), std::chrono::milliseconds(5));
  EXPECT_GE(last->time(), later->time());
}

TYPED_TEST_P(DeviceContract, AnErrorInWorkSurfacesOnceAndSkipsWhatFollowsIt) {
  this->fill(*this->a_, 1);
  TypeParam::enqueue_failure(*this->a_);
  this->fill(*this->a_, 2);
  this->a_->record(*this->event_);
  this->b_->wait(*this->event_);  // a peer does not hang
  this->fetch(*this->b_);
  this->b_->synchronize();
  EXPECT_THAT(this->fetched(), Each(TypeParam::kSkipsDeviceWorkBehindAnError ? 1 : 2));
  EXPECT_EQ(catch_error([&] { this->a_->synchronize(); }).code(), ErrorCode::device);

  this->fill(*this->a_, 3);
  this->fetch(*this->a_);
  EXPECT_NO_THROW(this->a_->synchronize());
  EXPECT_THAT(this->fetched(), Each(3));
}

TYPED_TEST_P(DeviceContract, MemoryIsAlignedBookedAndGivenBack) {
  EXPECT_EQ(this->device_->memory().use().used_bytes, this->kSize);
  DeviceBuffer one = this->device_->allocate(1, "one");
  DeviceBuffer other = this->device_->allocate(300, "other");
  for (const DeviceBuffer* buffer : {&one, &other})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 256, 0U);
  EXPECT_EQ(this->device_->memory().use().used_bytes, this->kSize + 301);

  const std::byte* kept = other.data();
  one = std::move(other);
  EXPECT_EQ(one.data(), kept);
  EXPECT_EQ(one.size_bytes(), 300U);
  EXPECT_EQ(this->device_->memory().use().used_bytes, this->kSize + 300);
  one = {};
  EXPECT_EQ(this->device_->memory().use().used_bytes, this->kSize);
}

TYPED_TEST_P(DeviceContract, NothingIsALegalAmountOfMemory) {
  EXPECT_EQ(this->device_->allocate(0, "nothing").data(), nullptr);
  EXPECT_EQ(this->device_->allocate_pinned(0, "test").data(), nullptr);
  EXPECT_EQ(this->device_->memory().use().parts.size(), 1U);
}

TYPED_TEST_P(DeviceContract, TheBudgetRefusesWithNumbersByPart) {
  const auto device = TypeParam::create(kMiB);
  const DeviceBuffer ring = device->allocate(700 * kKiB, "ring");
  const DeviceBuffer resident = device->allocate(100 * kKiB, "resident");
  const Error error = catch_error([&] { device->allocate(512 * kKiB, "activations"); });
  EXPECT_EQ(error.code(), ErrorCode::out_of_device_memory);
  EXPECT_THAT(error.message(), HasSubstr("512.0 KiB asked for 'activations'"));
  EXPECT_THAT(error.message(), HasSubstr("800.0 KiB used (resident 100.0 KiB, ring 700.0 KiB)"));
  EXPECT_THAT(error.message(), HasSubstr("1.0 MiB allowed"));
  EXPECT_EQ(device->allocate(224 * kKiB, "activations").size_bytes(), 224 * kKiB);  // the very rest
}

TYPED_TEST_P(DeviceContract, FreeingWaitsForPendingWork) {
  DeviceBuffer victim = this->device_->allocate(kMiB, "victim");
  PinnedBuffer pinned_victim = this->device_->allocate_pinned(kMiB, "test");
  const auto free_under_work = [&](auto& buffer) {
    const auto release = this->block(*this->a_);
    this->a_->copy_to_host_async(pinned_victim.data(), victim.data(), kMiB, "use both");
    std::atomic<bool> released = false;
    std::thread releaser([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      released = true;
      release();
    });
    buffer = {};
    EXPECT_TRUE(released);
    releaser.join();
  };
  free_under_work(pinned_victim);
  pinned_victim = this->device_->allocate_pinned(kMiB, "test");
  free_under_work(victim);
}

TYPED_TEST_P(DeviceContract, PinnedMemoryIsExactAndZeroed) {
  const std::size_t before = this->device_->pinned_bytes();
  PinnedBuffer odd = this->device_->allocate_pinned(12345, "test");
  EXPECT_EQ(odd.size_bytes(), 12345U);
  EXPECT_EQ(this->device_->pinned_bytes(), before + 12345);
  EXPECT_TRUE(std::all_of(odd.data(), odd.data() + 12345, [](std::byte byte) { return byte == std::byte{0}; }));
  odd = this->device_->allocate_pinned(10, "test");
  EXPECT_EQ(this->device_->pinned_bytes(), before + 10);
  PinnedBuffer moved = std::move(odd);
  EXPECT_EQ(this->device_->pinned_bytes(), before + 10);
  moved = {};
  EXPECT_EQ(this->device_->pinned_bytes(), before);
}

TYPED_TEST_P(DeviceContract, AMissingWaitIsFoundWhenWorkIsEnqueued) {
  OrderChecker& order = this->device_->order();
  order.watch({this->memory_.data(), this->kSize}, "memory");
  this->fill(*this->a_, 1);
  const Error error = catch_error([&] { this->fetch(*this->b_); });
  EXPECT_EQ(error.code(), ErrorCode::internal);
  for (const char* part : {"'fetch' on b reads", "[0, 1000) of memory", "'fill' on a writes"})
    EXPECT_THAT(error.message(), HasSubstr(part));

  this->a_->record(*this->event_);
  this->b_->wait(*this->event_);
  EXPECT_EQ(order.proven_pairs(), 0U);
  this->fetch(*this->b_);
  EXPECT_EQ(order.proven_pairs(), 1U);
  this->b_->synchronize();
  this->fill(*this->c_, 2);  // behind both through the host
  EXPECT_EQ(order.proven_pairs(), 3U);
  order.unwatch({this->memory_.data(), this->kSize});
}

TYPED_TEST_P(DeviceContract, EventsOfAnotherDeviceAreRefused) {
  const auto other = TypeParam::create(std::nullopt);
  const auto stream = other->create_stream("stranger");
  const auto event = other->create_event("stranger");
  stream->record(*event);
  EXPECT_EQ(catch_error([&] { this->a_->wait(*event); }).code(), ErrorCode::internal);
}

REGISTER_TYPED_TEST_SUITE_P(DeviceContract, CopiesBothWays, CopiesWithinTheDevice, FillsExactlyTheGivenBytes,
                            WorkOfAStreamRunsInOrder, CallsReturnBeforeTheWorkIsDone, WaitOrdersAStreamBehindAnother,
                            AnEventNeverRecordedHoldsNobodyUp, AWaitIsNotProlongedByALaterRecord,
                            AWaitIsNotShortenedByALaterRecord, TheHostWaitsForTheRecordedPointOnly,
                            EventsTellTimeOnOneClock, AnErrorInWorkSurfacesOnceAndSkipsWhatFollowsIt,
                            MemoryIsAlignedBookedAndGivenBack, NothingIsALegalAmountOfMemory,
                            TheBudgetRefusesWithNumbersByPart, FreeingWaitsForPendingWork, PinnedMemoryIsExactAndZeroed,
                            AMissingWaitIsFoundWhenWorkIsEnqueued, EventsOfAnotherDeviceAreRefused);

}  // namespace lamina::testing
