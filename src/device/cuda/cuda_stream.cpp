#include "device/cuda/cuda_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "device/cuda/cuda_event.h"
#include "device/device.h"

namespace lamina::cuda {
namespace {

void run_oldest(void* host_work) {
  static_cast<HostWork*>(host_work)->run_oldest();
}

cudaMemcpyKind kind_of(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::to_device: return cudaMemcpyHostToDevice;
    case CopyDirection::to_host: return cudaMemcpyDeviceToHost;
    case CopyDirection::within_device: return cudaMemcpyDeviceToDevice;
  }
  fail(ErrorCode::internal, "a copy in direction {}", static_cast<int>(direction));
}

}  // namespace

CudaStream::CudaStream(Device& device, Gpu& gpu, std::string name) : Stream(device, std::move(name)), gpu_(gpu) {
  gpu_.make_current();
  handle_ = make_stream_handle();
}

CudaStream::~CudaStream() {
  gpu_.try_make_current();
  log_failure(cudaStreamSynchronize(handle_.get()), "work of a stream that ends");
  if (const auto error = host_work_.take_error())
    spdlog::error("stream '{}' ends with an error nobody asked for: {}", name(), error->message());
}

void CudaStream::do_copy_async(CopyDirection direction, std::byte* destination, const Access& access) {
  gpu_.make_current();
  gpu_.delay(handle(), name(), access.name);
  const MemoryRange source = access.reads.front();
  check_enqueued(cudaMemcpyAsync(destination, source.begin, source.size_bytes, kind_of(direction), handle()),
                 access.name);
}

void CudaStream::do_fill_async(std::byte* destination, std::byte value, const Access& access) {
  gpu_.make_current();
  const std::size_t size_bytes = access.writes.front().size_bytes;
  check_enqueued(cudaMemsetAsync(destination, std::to_integer<int>(value), size_bytes, handle()), access.name);
}

void CudaStream::do_run_on_host_async(const Access& access, std::function<void()> work) {
  gpu_.make_current();
  host_work_.push(std::string(access.name), std::move(work));
  const cudaError_t status = cudaLaunchHostFunc(handle(), run_oldest, &host_work_);
  if (status != cudaSuccess) host_work_.drop_newest();
  check_enqueued(status, access.name);
}

void CudaStream::do_record(Event& event) {
  gpu_.make_current();
  static_cast<CudaEvent&>(event).record(handle());
}

bool CudaStream::do_wait(Event& event) {
  const auto& cuda_event = static_cast<const CudaEvent&>(event);
  if (!cuda_event.is_recorded()) return true;
  gpu_.make_current();
  gpu_.delay(handle(), name(), event.name());
  cuda_event.hold_up(handle());
  return true;
}

void CudaStream::do_synchronize() {
  gpu_.make_current();
  const cudaError_t status = cudaStreamSynchronize(handle());
  if (const auto error = host_work_.take_error()) throw *error;
  if (status != cudaSuccess) check(status, fmt::format("work of stream '{}' of {}", name(), device().name()));
  std::erase_if(watches_, [](const auto& watch) { return watch.expired(); });
  for (const auto& watch : watches_)
    if (const auto alive = watch.lock()) alive->check();
}

void CudaStream::add_watch(const std::shared_ptr<const StreamWatch>& watch) {
  const bool known = std::ranges::any_of(watches_, [&](const auto& other) { return other.lock() == watch; });
  if (!known) watches_.push_back(watch);
}

void CudaStream::check_enqueued(cudaError_t status, std::string_view work) const {
  if (status != cudaSuccess)
    check(status, fmt::format("'{}' on stream '{}' of {} was refused", work, name(), device().name()));
}

}  // namespace lamina::cuda
