#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda/stream_watch.h"
#include "lamina/error.h"

namespace lamina::nccl {

/// NCCL's communicators of one group, shared by its ranks. They are in NCCL's non-blocking mode, so that no thread is
/// ever stuck inside a call and `abort` always gets through. Thread safe.
class NcclGroup final : public cuda::StreamWatch {
 public:
  NcclGroup(std::string name, const std::vector<int>& devices);
  ~NcclGroup() override;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  /// Enqueues what `call` asks NCCL for, on a rank whose device is current. Throws the reason for which the group
  /// ended.
  void enqueue(std::size_t rank, const std::function<ncclResult_t(ncclComm_t)>& call);

  void abort(const Error& reason) noexcept;
  /// Throws the reason for which the group ended, if it has; looks for errors that NCCL met since.
  void check() const override;

 private:
  void connect(const std::vector<int>& devices);
  void await_connection(std::size_t rank);
  void throw_if_ended() const;
  [[noreturn]] void end_and_throw(const Error& reason) const;
  void abort_all() const noexcept;
  Error failure(ncclResult_t result, std::size_t rank) const;

  const std::string name_;
  mutable std::mutex mutex_;
  mutable std::vector<ncclComm_t> communicators_;  // by rank; empty once aborted
  mutable std::optional<Error> reason_;
};

}  // namespace lamina::nccl
