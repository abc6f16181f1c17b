#include "weights/host_weight_plan.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace lamina {
namespace {

struct Refusal {
  MappingRefusal kind = MappingRefusal::none;
  std::string reason;
};

/// What is known without a look at the files.
Refusal refuse_by_facts(const std::string& component, const LoadFacts& facts) {
  if (!facts.is_transformer)
    return {MappingRefusal::ordinary_component,
            fmt::format("component '{}' loads as usual: only transformers are mapped", component)};
  if (!facts.may_map)
    return {MappingRefusal::not_asked_for,
            fmt::format("component '{}': the configuration asks for private weights, or auto chose them for a GPU",
                        component)};
  if (facts.tensor_parallel_size != 1)
    return {MappingRefusal::tensor_parallel,
            fmt::format("component '{}': tensor parallelism over {} ranks needs slices of its tensors", component,
                        facts.tensor_parallel_size)};
  return {};
}

bool reads(const OtherComponent& other, const SafetensorsFile& file) {
  return std::ranges::any_of(other.checkpoint->files(),
                             [&](const SafetensorsFile* its) { return its->file().is_same(file.file()); });
}

/// Every file that is read belongs to the component alone. Tensors in it that nobody reads are the component's too.
Refusal refuse_by_files(const Checkpoint& checkpoint, const WeightDemand& demand,
                        const std::vector<WeightBinding>& bindings, const std::vector<OtherComponent>& others) {
  std::unordered_set<std::string_view> own;
  for (const WeightBinding& binding : bindings) own.insert(binding.stored.spec.name);
  for (const SafetensorsFile* file : checkpoint.files()) {
    for (const OtherComponent& other : others) {
      if (reads(other, *file))
        return {MappingRefusal::shared_file,
                fmt::format("{}: component '{}' reads it too; only a file of component '{}' alone is mapped",
                            file->path().string(), other.name, demand.component)};
      for (const StoredTensor& tensor : file->header().tensors)
        if (tensor.spec.name.starts_with(other.name + ".") && !own.contains(tensor.spec.name))
          return {MappingRefusal::shared_file,
                  fmt::format("{}: tensor {} is of component '{}'; only a file of component '{}' alone is mapped",
                              file->path().string(), excerpt(tensor.spec.name), other.name, demand.component)};
    }
  }
  return {};
}

}  // namespace

std::string_view to_string(HostBacking backing) noexcept {
  return backing == HostBacking::checkpoint_mmap ? "checkpoint mmap" : "private pinned";
}

std::string_view to_string(MappingRefusal refusal) noexcept {
  switch (refusal) {
    case MappingRefusal::none: return "none";
    case MappingRefusal::not_asked_for: return "not_asked_for";
    case MappingRefusal::ordinary_component: return "ordinary_component";
    case MappingRefusal::tensor_parallel: return "tensor_parallel";
    case MappingRefusal::shared_file: return "shared_file";
  }
  return "unknown";
}

WeightLoader::WeightLoader(const Checkpoint& checkpoint, const WeightDemand& demand, const LoadFacts& facts) {
  HostWeightPlan plan;
  for (const TensorSpec& tensor : demand.tensors)
    plan.bindings.push_back(bind_weight(checkpoint, tensor, demand.stored_as));
  Refusal refusal = refuse_by_facts(demand.component, facts);
  if (refusal.kind == MappingRefusal::none) refusal = refuse_by_files(checkpoint, demand, plan.bindings, facts.others);
  plan.refusal = refusal.kind;
  plan.reason = std::move(refusal.reason);
  plan.backing = plan.refusal == MappingRefusal::none ? HostBacking::checkpoint_mmap : HostBacking::private_pinned;
  plan_ = std::move(plan);
}

HostWeightPlan WeightLoader::take_host_weight_plan() {
  expects(plan_.has_value(), "a host weight plan was taken twice");
  return *std::exchange(plan_, std::nullopt);
}

}  // namespace lamina
