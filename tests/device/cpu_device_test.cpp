#include "device/cpu/cpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "catch_error.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/team_size.h"
#include "device/event.h"
#include "device/stream.h"

namespace lamina::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CpuDeviceTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kSize = 64;

  /// Plants `faults` with one field set by `edit`.
  template <typename Edit>
  void plant(Edit edit) {
    CpuFaults faults;
    edit(faults);
    set_cpu_faults(*device_, std::move(faults));
  }

  void upload() { copy_->copy_to_device_async(memory_.data(), host_.data(), kSize, "upload"); }
  void download() { copy_->copy_to_host_async(host_.data(), memory_.data(), kSize, "download"); }

  std::unique_ptr<Device> device_ = create_cpu_device();
  DeviceBuffer memory_ = device_->allocate(kSize, "memory");
  PinnedBuffer host_ = device_->allocate_pinned(kSize, "test");
  std::unique_ptr<Event> event_ = device_->create_event("ready");
  std::unique_ptr<Stream> compute_ = device_->create_stream("compute");
  std::unique_ptr<Stream> copy_ = device_->create_stream("copy");
};

TEST_F(CpuDeviceTest, FreshMemoryIsNotANumber) {
  for (std::size_t offset = 0; offset < kSize; offset += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, memory_.data() + offset, sizeof value);
    EXPECT_TRUE(std::isnan(value));
  }
}

TEST_F(CpuDeviceTest, LaunchedWorkRunsOnItsStreamWithTheTeamOfTheProcess) {
  std::vector<int> team_sizes;
  std::vector<std::thread::id> threads;
  for (Stream* stream : {compute_.get(), copy_.get()}) {
    cpu::launch(*stream, {"look", {}, {}}, [&] {
      team_sizes.push_back(omp_get_max_threads());
      threads.push_back(std::this_thread::get_id());
    });
    stream->synchronize();
  }
  EXPECT_THAT(team_sizes, ElementsAre(cpu_team_size(), cpu_team_size()));
  EXPECT_NE(threads[0], threads[1]);
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST(CpuTeamSize, IsAWholeNumberOfThreads) {
  EXPECT_EQ(cpu::parse_team_size("1"), 1);
  EXPECT_EQ(cpu::parse_team_size("1024"), 1024);
  for (const char* text : {"", "0", "-1", "1025", "2x", " 2", "two", "1.5", "99999999999999999999"}) {
    const Error error = catch_error([&] { cpu::parse_team_size(text); });
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("LAMINA_CPU_THREADS"), HasSubstr(std::string("'") + text + "'")));
  }
}

TEST_F(CpuDeviceTest, ErrorsOfWorkKeepTheirTypeOrNameTheWork) {
  cpu::launch(*compute_, {"typed", {}, {}}, [] { throw Error(ErrorCode::not_found, "typed as it was"); });
  cpu::launch(*compute_, {"second", {}, {}}, [] { throw Error(ErrorCode::internal, "never runs"); });
  Error error = catch_error([&] { compute_->synchronize(); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.message(), "typed as it was");

  cpu::launch(*compute_, {std::string("standard"), {}, {}}, [] { throw std::runtime_error("from a library"); });
  error = catch_error([&] { compute_->synchronize(); });
  EXPECT_EQ(error.code(), ErrorCode::device);
  EXPECT_EQ(error.message(), "'standard' on stream 'compute' failed: from a library");

  cpu::launch(*compute_, {"odd", {}, {}}, [] { throw 1; });
  EXPECT_EQ(catch_error([&] { compute_->synchronize(); }).code(), ErrorCode::device);
  EXPECT_NO_THROW(compute_->synchronize());
}

TEST_F(CpuDeviceTest, AStreamRunsItsQueueBeforeItEnds) {
  int runs = 0;
  for (int i = 0; i < 100; ++i) cpu::launch(*compute_, {"count", {}, {}}, [&] { ++runs; });
  compute_.reset();
  EXPECT_EQ(runs, 100);
  memory_ = {};  // no longer waits for that stream
}

TEST_F(CpuDeviceTest, DelaysHoldUpTheWorkTheyName) {
  std::mutex mutex;
  std::vector<std::string> asked;
  plant([&](CpuFaults& faults) {
    faults.delay = [&](std::string_view stream, std::string_view work) {
      const std::lock_guard lock(mutex);
      asked.push_back(std::string(stream) + "/" + std::string(work));
      return work == "upload" ? milliseconds(20) : milliseconds(0);
    };
  });
  auto before = device_->create_event("before");
  copy_->record(*before);
  upload();
  copy_->record(*event_);
  download();
  copy_->synchronize();
  EXPECT_GE(event_->time() - before->time(), milliseconds(20));
  EXPECT_THAT(asked, ElementsAre("copy/upload", "copy/download"));
}

TEST_F(CpuDeviceTest, TheKthAllocationFailsAndLeavesNoTrace) {
  plant([](CpuFaults& faults) { faults.fail_allocation = 2; });
  const DeviceBuffer first = device_->allocate(100, "part");
  EXPECT_EQ(catch_error([&] { device_->allocate(200, "part"); }).code(), ErrorCode::out_of_device_memory);
  EXPECT_EQ(device_->memory().use().used_bytes, kSize + 100);
  const DeviceBuffer third = device_->allocate(200, "part");
  EXPECT_EQ(device_->memory().use().used_bytes, kSize + 300);
}

TEST_F(CpuDeviceTest, TheKthUploadIsRefusedAndNotEnqueued) {
  device_->order().watch({host_.data(), kSize}, "staging");
  plant([](CpuFaults& faults) { faults.fail_copy = 2; });
  std::memset(host_.data(), 1, kSize);
  upload();
  download();  // not counted
  copy_->synchronize();

  std::memset(host_.data(), 2, kSize);
  const Error error = catch_error([&] { upload(); });
  EXPECT_EQ(error.code(), ErrorCode::device);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("'upload'"), HasSubstr("'copy'"), HasSubstr("64 bytes")));
  // Nothing was enqueued, so the host need not wait before it touches the bytes again.
  EXPECT_NO_THROW(device_->order().access(OrderChecker::kHost, {"refill", {}, {{host_.data(), kSize}}}));
  EXPECT_NO_THROW(copy_->synchronize());
  EXPECT_EQ(memory_.data()[0], std::byte{1});

  upload();
  copy_->synchronize();
  EXPECT_EQ(memory_.data()[0], std::byte{2});
}

TEST_F(CpuDeviceTest, ADroppedWaitIsFoundByTheOrderChecker) {
  device_->order().watch({memory_.data(), kSize}, "ring");
  std::vector<std::string> asked;
  bool drop = false;
  plant([&](CpuFaults& faults) {
    faults.drop_wait = [&](std::string_view stream, std::string_view event) {
      asked.push_back(std::string(stream) + "/" + std::string(event));
      return drop;
    };
  });
  const Access use{"linear", {{memory_.data(), kSize}}, {}};
  compute_->wait(*event_);  // never recorded: nothing to drop
  upload();
  copy_->record(*event_);
  compute_->wait(*event_);
  EXPECT_NO_THROW(compute_->announce(use));
  compute_->record(*event_);
  copy_->wait(*event_);

  drop = true;
  upload();
  copy_->record(*event_);
  compute_->wait(*event_);
  const Error error = catch_error([&] { compute_->announce(use); });
  EXPECT_EQ(error.code(), ErrorCode::internal);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("'linear' on compute reads"), HasSubstr("'upload' on copy writes")));
  EXPECT_THAT(asked, ElementsAre("compute/ready", "copy/ready", "compute/ready"));
}

TEST_F(CpuDeviceTest, ADroppedWaitOfTheHostIsFoundByTheOrderChecker) {
  device_->order().watch({host_.data(), kSize}, "staging");
  const Access refill{"refill", {}, {{host_.data(), kSize}}};
  event_->synchronize();  // never recorded: nothing to drop
  upload();
  copy_->record(*event_);
  event_->synchronize();
  EXPECT_NO_THROW(device_->order().access(OrderChecker::kHost, refill));

  plant([](CpuFaults& faults) {
    faults.drop_wait = [](std::string_view stream, std::string_view) { return stream == "host"; };
  });
  upload();
  copy_->record(*event_);
  event_->synchronize();
  const Error error = catch_error([&] { device_->order().access(OrderChecker::kHost, refill); });
  EXPECT_THAT(error.message(), AllOf(HasSubstr("'refill' on host writes"), HasSubstr("'upload' on copy reads")));
}

TEST_F(CpuDeviceTest, ADroppedWaitReallyDoesNotWait) {
  plant([](CpuFaults& faults) {
    faults.delay = [](std::string_view stream, std::string_view) -> nanoseconds {
      return stream == "copy" ? milliseconds(50) : milliseconds(0);
    };
    faults.drop_wait = [](std::string_view, std::string_view) { return true; };
  });
  upload();
  copy_->record(*event_);
  compute_->wait(*event_);
  auto passed = device_->create_event("passed");
  compute_->record(*passed);
  compute_->synchronize();
  copy_->synchronize();
  EXPECT_LT(passed->time(), event_->time());
}

TEST_F(CpuDeviceTest, TheTimeOfAPointNotReachedIsAnError) {
  EXPECT_THAT(catch_error([&] { event_->time(); }).message(), HasSubstr("'ready', which was not recorded"));
  plant([](CpuFaults& faults) { faults.delay = [](auto, auto) { return milliseconds(20); }; });
  upload();
  copy_->record(*event_);
  EXPECT_THAT(catch_error([&] { event_->time(); }).message(), HasSubstr("'ready', which was not reached yet"));
  event_->synchronize();
  EXPECT_NO_THROW(event_->time());
}

}  // namespace
}  // namespace lamina::testing
