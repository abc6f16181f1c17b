#include "comm/nccl/nccl_group.h"

#include <cuda_runtime.h>

#include <chrono>
#include <cstring>
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

NcclGroup::NcclGroup(std::string name, const NcclPart& part)
    : name_(std::move(name)),
      size_(part.size),
      first_rank_(part.first_rank),
      fate_(part.fate),
      communicators_(part.devices.size()) {
  try {
    connect(part);
  } catch (...) {
    abort_all();
    throw;
  }
  subscription_.emplace(fate_, [this](const Error&) { abort_all(); });
}

NcclGroup::~NcclGroup() {
  subscription_.reset();
  for (std::size_t local = 0; local < communicators_.size(); ++local) {
    const ncclResult_t result = ncclCommDestroy(communicators_[local]);
    if (result != ncclSuccess && result != ncclInProgress)
      spdlog::error("rank {} of group '{}' could not leave it: {}", first_rank_ + local, name_,
                    ncclGetErrorString(result));
  }
}

void NcclGroup::connect(const NcclPart& part) {
  // First by itself: an exception must not leave a group of NCCL's calls open.
  for (const int device : part.devices) cuda::check(cudaSetDevice(device));
  ncclUniqueId id;
  expects(part.id.size() == sizeof(id), "an id of group '{}' of {} bytes", name_, part.id.size());
  std::memcpy(&id, part.id.data(), sizeof(id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclGroupStart();
  for (std::size_t local = 0; local < part.devices.size(); ++local) {
    static_cast<void>(cudaSetDevice(part.devices[local]));
    ncclCommInitRankConfig(&communicators_[local], static_cast<int>(size_), id, static_cast<int>(first_rank_ + local),
                           &config);
  }
  const ncclResult_t result = ncclGroupEnd();
  if (result != ncclSuccess && result != ncclInProgress) throw failure(result, 0);
  for (std::size_t local = 0; local < communicators_.size(); ++local) await_connection(local);
}

void NcclGroup::await_connection(std::size_t local) {
  const auto limit = std::chrono::steady_clock::now() + kConnectionLimit;
  ncclResult_t state = state_of(communicators_[local]);
  for (; state == ncclInProgress; state = state_of(communicators_[local])) {
    fate_->check();
    if (std::chrono::steady_clock::now() > limit)
      fail(ErrorCode::device, "group '{}': rank {} is not connected after {} s", name_, first_rank_ + local,
           kConnectionLimit.count());
    std::this_thread::sleep_for(kPollInterval);
  }
  if (state != ncclSuccess) throw failure(state, local);
}

void NcclGroup::enqueue(std::size_t local, const std::function<ncclResult_t(ncclComm_t)>& call) {
  const ncclResult_t result = call_until_done(local, call);
  if (result != ncclSuccess) end_and_throw(failure(result, local));
}

ncclResult_t NcclGroup::call_until_done(std::size_t local, const std::function<ncclResult_t(ncclComm_t)>& call) {
  std::unique_lock lock(mutex_);
  fate_->check();
  ncclResult_t result = call(communicators_[local]);
  while (result == ncclInProgress) {
    lock.unlock();
    std::this_thread::sleep_for(kPollInterval);
    lock.lock();
    fate_->check();
    result = state_of(communicators_[local]);
  }
  return result;
}

void NcclGroup::check() const {
  if (const std::optional<Error> failure = find_failure()) end_and_throw(*failure);
}

std::optional<Error> NcclGroup::find_failure() const {
  const std::lock_guard lock(mutex_);
  fate_->check();
  for (std::size_t local = 0; local < communicators_.size(); ++local) {
    const ncclResult_t state = state_of(communicators_[local]);
    if (state != ncclSuccess && state != ncclInProgress) return failure(state, local);
  }
  return std::nullopt;
}

void NcclGroup::end_and_throw(const Error& reason) const {
  fate_->end(reason);
  throw *fate_->reason();
}

/// Ends the kernels that wait for peers, too.
void NcclGroup::abort_all() noexcept {
  const std::lock_guard lock(mutex_);
  for (ncclComm_t communicator : std::exchange(communicators_, {})) {
    if (communicator == nullptr) continue;
    const ncclResult_t result = ncclCommAbort(communicator);
    if (result != ncclSuccess && result != ncclInProgress)
      spdlog::error("group '{}' could not be aborted: {}", name_, ncclGetErrorString(result));
  }
}

Error NcclGroup::failure(ncclResult_t result, std::size_t local) const {
  return Error(ErrorCode::device, fmt::format("rank {} of group '{}' failed: NCCL: {}", first_rank_ + local, name_,
                                              ncclGetErrorString(result)));
}

}  // namespace lamina::nccl
