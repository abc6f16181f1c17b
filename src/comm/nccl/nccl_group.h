#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/nccl/nccl_communicator.h"
#include "comm/shared_fate.h"
#include "device/cuda/stream_watch.h"
#include "lamina/error.h"

namespace lamina::nccl {

/// NCCL's communicators of one group, shared by its ranks in this process, which are counted from 0 here. They are in
/// NCCL's non-blocking mode, so that no thread is ever stuck inside a call and `abort` always gets through. Thread
/// safe.
class NcclGroup final : public cuda::StreamWatch {
 public:
  NcclGroup(std::string name, const NcclPart& part);
  ~NcclGroup() override;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  std::size_t size() const noexcept { return size_; }
  std::size_t first_rank() const noexcept { return first_rank_; }

  /// Enqueues what `call` asks NCCL for, on a rank whose device is current. Throws the reason for which the group
  /// ended.
  void enqueue(std::size_t local, const std::function<ncclResult_t(ncclComm_t)>& call);

  void abort(const Error& reason) noexcept { fate_->end(reason); }
  /// Throws the reason for which the group ended, if it has; looks for errors that NCCL met since.
  void check() const override;

 private:
  void connect(const NcclPart& part);
  void await_connection(std::size_t local);
  ncclResult_t call_until_done(std::size_t local, const std::function<ncclResult_t(ncclComm_t)>& call);
  std::optional<Error> find_failure() const;
  [[noreturn]] void end_and_throw(const Error& reason) const;
  void abort_all() noexcept;
  Error failure(ncclResult_t result, std::size_t local) const;

  const std::string name_;
  const std::size_t size_;
  const std::size_t first_rank_;
  const std::shared_ptr<SharedFate> fate_;  // never ended with mutex_ held: then it wants to abort the communicators
  mutable std::mutex mutex_;
  std::vector<ncclComm_t> communicators_;  // of the local ranks; empty once aborted
  std::optional<SharedFate::Subscription> subscription_;
};

}  // namespace lamina::nccl
