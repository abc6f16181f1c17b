#include "comm/nccl/nccl_group.h"

#include <cuda_runtime.h>

#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "device/cuda/cuda_native.h"

namespace lamina::nccl {
namespace {

constexpr std::chrono::microseconds kPollInterval{20};
constexpr std::chrono::seconds kConnectionLimit{60};

/// What NCCL makes of a call in the end. Nobody else may abort the communicator meanwhile.
ncclResult_t state_of(ncclComm_t communicator) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(communicator, &state);
  return asked == ncclSuccess ? state : asked;
}

}  // namespace

NcclGroup::NcclGroup(std::string name, const std::vector<int>& devices)
    : name_(std::move(name)), communicators_(devices.size()) {
  try {
    connect(devices);
  } catch (...) {
    abort_all();
    throw;
  }
}

NcclGroup::~NcclGroup() {
  for (std::size_t rank = 0; rank < communicators_.size(); ++rank) {
    const ncclResult_t result = ncclCommDestroy(communicators_[rank]);
    if (result != ncclSuccess && result != ncclInProgress)
      spdlog::error("rank {} of group '{}' could not leave it: {}", rank, name_, ncclGetErrorString(result));
  }
}

void NcclGroup::connect(const std::vector<int>& devices) {
  ncclUniqueId id;
  if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) throw failure(result, 0);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const int ranks = static_cast<int>(devices.size());
  ncclGroupStart();
  for (int rank = 0; rank < ranks; ++rank) {
    cuda::check(cudaSetDevice(devices[static_cast<std::size_t>(rank)]));
    ncclCommInitRankConfig(&communicators_[static_cast<std::size_t>(rank)], ranks, id, rank, &config);
  }
  const ncclResult_t result = ncclGroupEnd();
  if (result != ncclSuccess && result != ncclInProgress) throw failure(result, 0);
  for (std::size_t rank = 0; rank < communicators_.size(); ++rank) await_connection(rank);
}

void NcclGroup::await_connection(std::size_t rank) {
  const auto limit = std::chrono::steady_clock::now() + kConnectionLimit;
  ncclResult_t state = state_of(communicators_[rank]);
  for (; state == ncclInProgress; state = state_of(communicators_[rank])) {
    if (std::chrono::steady_clock::now() > limit)
      fail(ErrorCode::device, "group '{}': rank {} is not connected after {} s", name_, rank, kConnectionLimit.count());
    std::this_thread::sleep_for(kPollInterval);
  }
  if (state != ncclSuccess) throw failure(state, rank);
}

void NcclGroup::enqueue(std::size_t rank, const std::function<ncclResult_t(ncclComm_t)>& call) {
  std::unique_lock lock(mutex_);
  throw_if_ended();
  ncclResult_t result = call(communicators_[rank]);
  while (result == ncclInProgress) {
    lock.unlock();
    std::this_thread::sleep_for(kPollInterval);
    lock.lock();
    throw_if_ended();
    result = state_of(communicators_[rank]);
  }
  if (result != ncclSuccess) end_and_throw(failure(result, rank));
}

void NcclGroup::abort(const Error& reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (reason_) return;
  reason_ = reason;
  abort_all();
}

void NcclGroup::check() const {
  const std::lock_guard lock(mutex_);
  throw_if_ended();
  for (std::size_t rank = 0; rank < communicators_.size(); ++rank) {
    const ncclResult_t state = state_of(communicators_[rank]);
    if (state != ncclSuccess && state != ncclInProgress) end_and_throw(failure(state, rank));
  }
}

void NcclGroup::throw_if_ended() const {
  if (reason_) throw *reason_;
}

void NcclGroup::end_and_throw(const Error& reason) const {
  reason_ = reason;
  abort_all();
  throw reason;
}

/// Ends the kernels that wait for peers, too.
void NcclGroup::abort_all() const noexcept {
  for (ncclComm_t communicator : std::exchange(communicators_, {})) {
    if (communicator == nullptr) continue;
    const ncclResult_t result = ncclCommAbort(communicator);
    if (result != ncclSuccess && result != ncclInProgress)
      spdlog::error("group '{}' could not be aborted: {}", name_, ncclGetErrorString(result));
  }
}

Error NcclGroup::failure(ncclResult_t result, std::size_t rank) const {
  return Error(ErrorCode::device,
               fmt::format("rank {} of group '{}' failed: NCCL: {}", rank, name_, ncclGetErrorString(result)));
}

}  // namespace lamina::nccl
