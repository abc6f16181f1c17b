#include "comm/mpi/process_world.h"

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace lamina::mpi {
namespace {

// A process that the others wait for in vain has all of them end within 30 s.
constexpr std::chrono::seconds kJoinLimit{25};
constexpr std::chrono::seconds kGiveUpLimit{1};  // its thread is in MPI's own start, and cannot be called back
constexpr std::chrono::seconds kLeaveLimit{15};

/// What MPI may refer to after a failure must outlive everything.
MessageLoop& keep_for_good(std::unique_ptr<MessageLoop> loop) {
  static auto& loops = *std::make_unique<std::vector<std::unique_ptr<MessageLoop>>>().release();
  return *loops.emplace_back(std::move(loop));
}

/// Open MPI lets a process read large messages from its peer's memory where the system allows it: it may not in
/// containers, and the peer may be gone. Through shared memory they take one copy more.
void send_through_shared_memory() {
  ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
}

}  // namespace

ProcessWorld::ProcessWorld(const LaunchedProcess& process, std::size_t ranks_per_process,
                           std::chrono::milliseconds silence_limit)
    : loop_(keep_for_good(std::make_unique<MessageLoop>(process, ranks_per_process, silence_limit))) {
  send_through_shared_memory();
  thread_ = std::thread([&loop = loop_] { loop.run(); });
  try {
    loop_.wait_until_joined(kJoinLimit);
  } catch (...) {
    leave(kGiveUpLimit);
    throw;
  }
}

ProcessWorld::~ProcessWorld() {
  leave(kLeaveLimit);
}

void ProcessWorld::leave(std::chrono::seconds limit) noexcept {
  if (loop_.leave(limit)) return thread_.join();
  spdlog::error("MPI did not end within {} s; this process goes on without it", limit.count());
  thread_.detach();
}

}  // namespace lamina::mpi
