#include "comm/mpi/process_communicator.h"

#include <algorithm>
#include <utility>

#include "comm/mpi/blocks.h"
#include "device/cpu/cpu_stream.h"

namespace lamina::mpi {
namespace {

using std::chrono::nanoseconds;

/// A group, and what its ranks of this process bring to the next meeting. Each writes its own place before, and has it
/// to itself behind.
struct Ends {
  explicit Ends(std::shared_ptr<ProcessGroup> of)
      : group(std::move(of)), collectives(group->own().count), virtual_times(group->own().count) {}

  void perform(const MeetingTopic& topic) {
    deliver(group->address(), collectives, group->exchange(topic, blocks_for_others(group->address(), collectives)));
    over = std::ranges::max(virtual_times);
  }

  const std::shared_ptr<ProcessGroup> group;
  std::vector<Collective> collectives;
  std::vector<nanoseconds> virtual_times;
  nanoseconds over{0};  ///< virtual time at which the last meeting was, as far as this process knows
};

class ProcessCommunicator final : public Communicator {
 public:
  ProcessCommunicator(const std::string& name, std::size_t local, std::shared_ptr<Ends> ends)
      : Communicator(name, ends->group->own().first + local, ends->group->size()),
        local_(local),
        ends_(std::move(ends)) {}
  ~ProcessCommunicator() override { ends_->group->leave(local_); }

  void abort(const Error& reason) noexcept override { ends_->group->abort(reason); }
  void check() const override { ends_->group->check(); }

 private:
  void do_enqueue(const Collective& collective, const Access& access, Stream& stream) override {
    const MeetingTopic topic{++entered_, describe(collective), collective.piece_bytes};
    cpu::launch_meeting(stream, access, size() * collective.piece_bytes,
                        [ends = ends_, local = local_, topic, collective](nanoseconds virtual_time) {
                          ends->collectives[local] = collective;
                          ends->virtual_times[local] = virtual_time;
                          ends->group->meet(local, topic, [&] { ends->perform(topic); });
                          return ends->over;
                        });
  }

  const std::size_t local_;
  const std::shared_ptr<Ends> ends_;
  std::uint64_t entered_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> create_ends(const std::string& name,
                                                       const std::shared_ptr<ProcessGroup>& group) {
  const auto ends = std::make_shared<Ends>(group);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (std::size_t local = 0; local < group->own().count; ++local)
    communicators.push_back(std::make_unique<ProcessCommunicator>(name, local, ends));
  return communicators;
}

}  // namespace lamina::mpi
