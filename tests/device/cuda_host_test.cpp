#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/bytes.h"
#include "catch_error.h"
#include "device/cpu/cpu_device.h"
#include "device/cuda/availability.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_native.h"
#include "device/cuda/host_pages.h"
#include "device/cuda/host_work.h"

// What of the CUDA backend runs without a GPU.
namespace lamina::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(CudaAvailability, SaysWhatIsMissing) {
  using cuda::explain_absence;
  EXPECT_THAT(explain_absence({0, 0, cudaErrorInsufficientDriver}, 0),
              AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("needs one for CUDA 13.0 or later")));
  EXPECT_THAT(explain_absence({12040, 0, cudaErrorInsufficientDriver}, 0),
              AllOf(HasSubstr("too old: it is for CUDA 12.4"), HasSubstr("needs one for CUDA 13.0 or later")));
  EXPECT_THAT(explain_absence({13010, 0, cudaErrorNoDevice}, 0),
              AllOf(HasSubstr("for CUDA 13.1, finds no GPU"), HasSubstr("CUDA_VISIBLE_DEVICES")));
  EXPECT_THAT(explain_absence({13000, 0, cudaErrorSystemDriverMismatch}, 0),
              HasSubstr("cudaErrorSystemDriverMismatch"));
  EXPECT_THAT(explain_absence({13000, 1, cudaSuccess}, 1), HasSubstr("no such device, one GPU is found"));
  EXPECT_THAT(explain_absence({13000, 8, cudaSuccess}, 8), HasSubstr("no such device, 8 GPUs are found"));
  EXPECT_THAT(explain_absence({13000, 8, cudaSuccess}, -1), HasSubstr("no such device"));
  EXPECT_EQ(explain_absence({13000, 8, cudaSuccess}, 7), "");
}

TEST(CudaAvailability, TheReasonIsTheRefusalWhereThereIsNoDevice) {
  const std::string reason = cuda_unavailable_reason();
  if (reason.empty()) GTEST_SKIP() << "there is a GPU";
  const Error error = catch_error([] { create_cuda_device(); });
  EXPECT_EQ(error.code(), ErrorCode::unavailable);
  EXPECT_EQ(error.message(), "cuda:0: " + reason);
}

TEST(CudaStatus, BecomesAnErrorThatNamesLibraryReasonAndPlace) {
  EXPECT_NO_THROW(cuda::check(cudaSuccess));
  EXPECT_NO_THROW(cuda::check(CUBLAS_STATUS_SUCCESS));
  EXPECT_NO_THROW(cuda::check(CUDNN_STATUS_SUCCESS));
  const auto expect_error = [](auto status, ErrorCode code, const char* library, const char* name) {
    const Error error = catch_error([&] { cuda::check(status); });
    EXPECT_EQ(error.code(), code) << name;
    EXPECT_THAT(error.message(), AllOf(HasSubstr(library), HasSubstr(name), HasSubstr("cuda_host_test.cpp:")));
  };
  const ErrorCode memory = ErrorCode::out_of_device_memory;
  expect_error(cudaErrorMemoryAllocation, memory, "CUDA", "cudaErrorMemoryAllocation");
  expect_error(cudaErrorInvalidValue, ErrorCode::device, "CUDA", "cudaErrorInvalidValue");
  expect_error(CUBLAS_STATUS_ALLOC_FAILED, memory, "cuBLASLt", "CUBLAS_STATUS_ALLOC_FAILED");
  expect_error(CUBLAS_STATUS_NOT_SUPPORTED, ErrorCode::device, "cuBLASLt", "CUBLAS_STATUS_NOT_SUPPORTED");
  expect_error(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, memory, "cuDNN",
               "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED");
  expect_error(CUDNN_STATUS_NOT_SUPPORTED, ErrorCode::device, "cuDNN", "CUDNN_STATUS_NOT_SUPPORTED");
}

TEST(CudaNative, RefusesStreamsOfOtherDevices) {
  const auto device = create_cpu_device();
  const auto stream = device->create_stream("compute");
  EXPECT_EQ(catch_error([&] { cuda::native(*stream); }).code(), ErrorCode::internal);
  EXPECT_EQ(catch_error([&] { cuda::multiprocessor_count(*stream); }).code(), ErrorCode::internal);
}

TEST(CudaHostWork, RunsInOrderSkipsBehindAnErrorAndKeepsNoCaptures) {
  cuda::HostWork work;
  const auto ran = std::make_shared<std::vector<int>>();
  const auto push = [&](int number) { work.push("work", [ran, number] { ran->push_back(number); }); };
  push(1);
  push(2);
  work.push("broken", [] { throw Error(ErrorCode::corrupt, "shard 3"); });
  push(4);
  work.push("broken too", [] { throw std::runtime_error("unseen"); });
  for (int i = 0; i < 5; ++i) work.run_oldest();
  EXPECT_EQ(*ran, (std::vector<int>{1, 2}));
  EXPECT_EQ(ran.use_count(), 1);
  const auto error = work.take_error();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::corrupt);
  EXPECT_FALSE(work.take_error().has_value());
  push(6);
  push(7);
  work.drop_newest();
  work.run_oldest();
  EXPECT_EQ(*ran, (std::vector<int>{1, 2, 6}));
}

TEST(CudaHostWork, NamesTheWorkThatThrewSomethingElse) {
  cuda::HostWork work;
  work.push("read shard", [] { throw std::runtime_error("planted"); });
  work.run_oldest();
  const auto error = work.take_error();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::device);
  EXPECT_EQ(error->message(), "'read shard' failed: planted");
}

TEST(CudaHostPages, ArePresentAndZeroToTheLastByte) {
  constexpr std::size_t kPage = 4096;
  for (const std::size_t size : {std::size_t{1}, kPage, kPage + 1, 3 * kMiB + 5, 40 * kMiB - 1}) {
    void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    auto* data = static_cast<std::byte*>(mapped);
    cuda::make_pages_present(data, size);
    std::vector<unsigned char> present((size + kPage - 1) / kPage);
    ASSERT_EQ(::mincore(mapped, size, present.data()), 0);
    EXPECT_THAT(present, Each(1)) << size;
    EXPECT_TRUE(std::all_of(data, data + size, [](std::byte byte) { return byte == std::byte{0}; })) << size;
    EXPECT_EQ(::munmap(mapped, size), 0);
  }
}

}  // namespace
}  // namespace lamina::testing
