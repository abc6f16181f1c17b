#pragma once

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/mpi/processes.h"
#include "comm/shared_fate.h"

namespace lamina::mpi {

/// The tag of its messages; groups have those behind it.
constexpr int kLifelineTag = 0;

/// What processes tell each other besides their data: that they live, why they failed, and that they are done. A
/// process that is killed says nothing, and MPI says nothing of it either; its silence does. Only the thread that talks
/// to MPI uses it, all the time, so that nothing else that a process does looks like silence.
class Lifeline {
 public:
  /// A process that is silent for `silence_limit` ends `fate`; so does one that says that it failed, and one that has
  /// another number of ranks.
  Lifeline(const Processes& processes, std::chrono::milliseconds silence_limit, std::shared_ptr<SharedFate> fate);

  /// Listens and speaks. True where something came.
  bool advance();

  /// This process is done; once.
  void say_goodbye();
  /// All said goodbye, and know that this process did.
  bool is_over();
  /// The reason for which this process ended is on its way.
  bool has_told();
  /// Behind the last `advance`, where MPI goes on.
  void close() noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  /// Small enough that MPI sends it without waiting for its receiver.
  struct Message {
    enum class Kind : std::uint32_t { beat, failure, goodbye };
    Kind kind = Kind::beat;
    std::uint32_t code = 0;  ///< of a failure
    std::uint64_t ranks_per_process = 0;
    std::array<char, 1008> text{};
  };
  struct Peer {
    std::size_t process = 0;
    Message incoming;
    MPI_Request receiving = MPI_REQUEST_NULL;
    MPI_Request beating = MPI_REQUEST_NULL;
    Clock::duration silence{0};
    bool said_goodbye = false;
  };

  Message make(Message::Kind kind) const;
  void listen_to(Peer& peer);
  bool hear();
  void understand(Peer& peer);
  void watch_silence(Clock::time_point now);
  void beat(Clock::time_point now);
  void tell();
  void end(const Peer& peer, const Error& failure);
  void send_last_word(const Message& message);

  const Processes processes_;
  const Clock::duration silence_limit_;
  const Clock::duration beat_interval_;
  const std::shared_ptr<SharedFate> fate_;
  std::vector<Peer> peers_;
  Clock::time_point watched_at_;
  Clock::time_point beat_at_;
  const Message beat_;
  Message failure_;
  Message goodbye_;
  std::vector<MPI_Request> sending_last_word_;
  bool is_told_by_others_ = false;
  bool has_told_ = false;
};

}  // namespace lamina::mpi
