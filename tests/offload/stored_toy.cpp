#include "offload/stored_toy.h"

#include <string>

#include "weights/checkpoint_writer.h"

namespace lamina::test {

StoredToy::StoredToy(const std::vector<ToyPart::Sizes>& stacks) : stacks_(stacks) {
  plan_.component = "toy";
  plan_.lists = {{"blocks"}};
  for (std::size_t s = 0; s < stacks.size(); ++s) {
    Stack& stack = plan_.stacks.emplace_back(Stack{"stack" + std::to_string(s), Phase::step, {}});
    for (std::size_t u = 0; u < stacks[s].size(); ++u) {
      const std::string block = stack.name + "." + std::to_string(u);
      const auto half = static_cast<std::int64_t>(stacks[s][u] / 2);
      stack.units.push_back({block,
                             "all",
                             0,
                             {ParameterGroup::single({block + ".weight", DType::u8, {half}}),
                              ParameterGroup::single({block + ".other", DType::u8, {half}})}});
    }
  }
  const auto pattern_of = [](const TensorSpec& tensor) {
    const std::size_t dot = tensor.name.find('.');
    return ToyPart::pattern({std::stoul(tensor.name.substr(5, dot - 5)), std::stoul(tensor.name.substr(dot + 1))});
  };
  write_checkpoint(folder_.path(), "toy", member_tensors(plan_), 1,
                   [&](const TensorSpec& tensor, std::size_t, std::span<std::byte> bytes) {
                     std::ranges::fill(bytes, pattern_of(tensor));
                   });
  checkpoint_ = std::make_unique<Checkpoint>(Checkpoint::open(folder_.path(), "toy"));
}

std::vector<WeightBinding> StoredToy::bindings() const {
  std::vector<WeightBinding> bindings;
  for (const TensorSpec& tensor : member_tensors(plan_)) bindings.push_back(bind_weight(*checkpoint_, tensor, {}));
  return bindings;
}

GatheredToy::GatheredToy(LocalRank& mine, const StoredToy& toy, std::size_t chunks, std::size_t ring_bytes,
                         const std::vector<std::vector<bool>>& resident, bool record_timeline, ShardPlace shards)
    : sharding{mine.communicator->size(), chunks},
      compute(mine.device->create_stream("compute")),
      copy(mine.device->create_stream("copy")),
      part(*mine.device, toy.stacks()),
      source(*mine.device, *mine.communicator, toy.plan(), toy.bindings(), {chunks, shards}),
      stream(*mine.device, *compute, *copy, &source, part.bindings(resident, sharding),
             {ring_bytes, true, record_timeline}) {}

void GatheredToy::visit(UnitRef unit) {
  UnitLease lease = stream.enter(unit.unit);
  part.run(unit, *compute);
  lease.leave();
}

}  // namespace lamina::test
