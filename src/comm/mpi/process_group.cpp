#include "comm/mpi/process_group.h"

#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace lamina::mpi {

GroupAddress locate(std::string name, int tag, std::span<const std::size_t> ranks, const Processes& processes) {
  GroupAddress address{.name = std::move(name), .tag = tag, .own = {.process = processes.index}, .others = {}};
  std::vector<GroupPart> parts;
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    const std::size_t process = processes.of_rank(ranks[place]);
    if (parts.empty() || parts.back().process != process) parts.push_back({process, place, 0});
    ++parts.back().count;
  }
  for (const GroupPart& part : parts)
    if (part.process == processes.index)
      address.own = part;
    else
      address.others.push_back(part);
  return address;
}

ProcessGroup::ProcessGroup(std::shared_ptr<ProcessWorld> world, GroupAddress address,
                           std::optional<std::chrono::milliseconds> time_limit)
    : world_(std::move(world)),
      address_(std::make_shared<const GroupAddress>(std::move(address))),
      time_limit_(time_limit),
      rendezvous_(address_->name, address_->own.count, time_limit, address_->own.first),
      subscription_(world_->fate(), [this](const Error& reason) { rendezvous_.abort(reason); }) {}

ProcessGroup::~ProcessGroup() {
  try {
    if (!others().empty()) world_->loop().post(Exchange::farewell(address_));
  } catch (const std::exception& error) {
    spdlog::error("group '{}' could not be left: {}", address_->name, error.what());
  }
}

void ProcessGroup::meet(std::size_t local, const MeetingTopic& topic, const std::function<void()>& work) {
  try {
    rendezvous_.meet(local, topic, work);
  } catch (const Error& error) {
    world_->fate()->end(error);
    check();
  }
}

std::vector<Bytes> ProcessGroup::exchange(const MeetingTopic& topic,
                                          std::vector<std::shared_ptr<const Bytes>> outgoing) {
  if (others().empty()) return {};
  const auto exchange = std::make_shared<Exchange>(address_, topic, std::move(outgoing));
  if (!world_->loop().carry_out(exchange, time_limit_))
    fail(ErrorCode::device, "group '{}' waits in {} for {}, which did not come within {} ms", address_->name,
         describe(topic), exchange->missing_ranks(), time_limit_->count());
  return exchange->take_incoming();
}

}  // namespace lamina::mpi
