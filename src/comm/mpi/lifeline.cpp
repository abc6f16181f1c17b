#include "comm/mpi/lifeline.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "comm/mpi/mpi_call.h"
#include "comm/rank_failure.h"

namespace lamina::mpi {
namespace {

using std::chrono::milliseconds;

constexpr int kBeatsPerLimit = 10;
constexpr milliseconds kLongestInterval{1000};

bool is_done(MPI_Request& request) {
  int done = 0;
  check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

}  // namespace

Lifeline::Lifeline(const Processes& processes, milliseconds silence_limit, std::shared_ptr<SharedFate> fate)
    : processes_(processes),
      silence_limit_(silence_limit),
      beat_interval_(std::min(silence_limit / kBeatsPerLimit, kLongestInterval)),
      fate_(std::move(fate)),
      peers_(processes.count - 1),
      watched_at_(Clock::now()),
      beat_(make(Message::Kind::beat)) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    peers_[i].process = i < processes.index ? i : i + 1;
    listen_to(peers_[i]);
  }
}

bool Lifeline::advance() {
  const bool heard = hear();
  const Clock::time_point now = Clock::now();
  watch_silence(now);
  beat(now);
  if (fate_->reason()) tell();
  return heard;
}

Lifeline::Message Lifeline::make(Message::Kind kind) const {
  return {.kind = kind, .ranks_per_process = processes_.ranks_per_process};
}

void Lifeline::listen_to(Peer& peer) {
  check(MPI_Irecv(&peer.incoming, sizeof(Message), MPI_BYTE, static_cast<int>(peer.process), kLifelineTag,
                  MPI_COMM_WORLD, &peer.receiving),
        "MPI_Irecv");
}

bool Lifeline::hear() {
  bool heard = false;
  for (Peer& peer : peers_) {
    if (!is_done(peer.receiving)) continue;
    heard = heard || peer.incoming.kind != Message::Kind::beat;
    peer.silence = {};
    understand(peer);
    listen_to(peer);
  }
  return heard;
}

void Lifeline::understand(Peer& peer) {
  const Message& message = peer.incoming;
  if (message.ranks_per_process != processes_.ranks_per_process)
    end(peer,
        Error(ErrorCode::incompatible,
              fmt::format("{} ranks in process {}, but {} in process {}; start all alike", message.ranks_per_process,
                          peer.process, processes_.ranks_per_process, processes_.index)));
  switch (message.kind) {
    case Message::Kind::beat: return;
    case Message::Kind::goodbye: peer.said_goodbye = true; return;
    case Message::Kind::failure:
      is_told_by_others_ = is_told_by_others_ || !fate_->reason();
      fate_->end(Error(static_cast<ErrorCode>(message.code), message.text.data()));
  }
}

/// Time in which this thread did not run is not the others' silence.
void Lifeline::watch_silence(Clock::time_point now) {
  const Clock::duration step = std::min(now - std::exchange(watched_at_, now), beat_interval_);
  for (Peer& peer : peers_) {
    peer.silence += step;
    if (peer.silence < silence_limit_ || fate_->reason()) continue;
    end(peer,
        Error(ErrorCode::device, fmt::format("{} is gone: no sign of life for {} s", processes_.name_of(peer.process),
                                             std::chrono::duration<double>(silence_limit_).count())));
  }
}

void Lifeline::end(const Peer& peer, const Error& failure) {
  fate_->end(rank_failure(peer.process * processes_.ranks_per_process, failure));
}

/// Where the last beat has not been taken yet, it will do.
void Lifeline::beat(Clock::time_point now) {
  if (now - beat_at_ < beat_interval_) return;
  beat_at_ = now;
  for (Peer& peer : peers_)
    if (is_done(peer.beating))
      check(MPI_Isend(&beat_, sizeof(Message), MPI_BYTE, static_cast<int>(peer.process), kLifelineTag, MPI_COMM_WORLD,
                      &peer.beating),
            "MPI_Isend");
}

/// Whoever found the reason tells all others.
void Lifeline::tell() {
  if (std::exchange(has_told_, true) || is_told_by_others_) return;
  const Error reason = *fate_->reason();
  failure_ = make(Message::Kind::failure);
  failure_.code = static_cast<std::uint32_t>(reason.code());
  reason.message().copy(failure_.text.data(), failure_.text.size() - 1);
  send_last_word(failure_);
}

void Lifeline::say_goodbye() {
  goodbye_ = make(Message::Kind::goodbye);
  send_last_word(goodbye_);
}

void Lifeline::send_last_word(const Message& message) {
  for (Peer& peer : peers_)
    check(MPI_Isend(&message, sizeof(Message), MPI_BYTE, static_cast<int>(peer.process), kLifelineTag, MPI_COMM_WORLD,
                    &sending_last_word_.emplace_back()),
          "MPI_Isend");
}

bool Lifeline::is_over() {
  return std::ranges::all_of(peers_, &Peer::said_goodbye) && std::ranges::all_of(sending_last_word_, is_done);
}

bool Lifeline::has_told() {
  return has_told_ && std::ranges::all_of(sending_last_word_, is_done);
}

void Lifeline::close() noexcept {
  for (Peer& peer : peers_) {
    MPI_Cancel(&peer.receiving);
    MPI_Wait(&peer.receiving, MPI_STATUS_IGNORE);
    if (peer.beating != MPI_REQUEST_NULL) MPI_Request_free(&peer.beating);
  }
}

}  // namespace lamina::mpi
