#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor_spec.h"
#include "weights/checkpoint.h"
#include "weights/weight_binding.h"

namespace lamina {

/// Where a component's weights live on the host.
enum class HostBacking {
  checkpoint_mmap,  ///< in the checkpoint's files; they are packed whenever they are needed
  private_pinned,   ///< in images of this process, packed once
};

/// "checkpoint mmap", "private pinned".
std::string_view to_string(HostBacking backing) noexcept;

/// The first proof that failed. A tensor that is missing, or of another shape, is not among them: neither backing could
/// load it, and binding refuses the checkpoint.
enum class MappingRefusal {
  none,                ///< the files can be the runtime layout
  not_asked_for,       ///< private weights are wanted, or suit the device better
  ordinary_component,  ///< only transformers are mapped
  tensor_parallel,     ///< each rank needs its own slices
  shared_file,         ///< another component's file too
};

/// The identifier, as the report spells it: "tensor_parallel".
std::string_view to_string(MappingRefusal refusal) noexcept;

/// Another component of the same model, whose checkpoint outlives the loader.
struct OtherComponent {
  std::string name;  ///< "vae"
  const Checkpoint* checkpoint = nullptr;
};

/// What the loader knows beside the files.
struct LoadFacts {
  bool may_map = true;         ///< the configuration allows it, and the device gains by it
  bool is_transformer = true;  ///< else the component loads as usual
  std::size_t tensor_parallel_size = 1;
  /// A file that one of them reads, or that holds tensors under one's name ("vae."), is shared.
  std::vector<OtherComponent> others;
};

/// What a component takes from its checkpoint, and how it is stored there.
struct WeightDemand {
  std::string component;
  std::vector<TensorSpec> tensors;
  std::vector<std::string> known_unused;  ///< names, or prefixes ending in '.', that nobody loads on purpose
  StoredFormOf stored_as;                 ///< may be empty
};

/// Where every tensor of a component comes from, decided before any weight is read. Whoever takes it need not look at
/// files again. The checkpoint must outlive it.
struct HostWeightPlan {
  HostBacking backing = HostBacking::private_pinned;
  MappingRefusal refusal = MappingRefusal::none;
  std::string reason;                   ///< one sentence naming file or tensor; empty without refusal
  std::vector<WeightBinding> bindings;  ///< in the order of the demand
};

/// Plans a component's host weights, and hands the plan over once. Reads no tensor byte.
class WeightLoader {
 public:
  /// Throws as `bind_weight` does.
  WeightLoader(const Checkpoint& checkpoint, const WeightDemand& demand, const LoadFacts& facts);

  /// Throws internal at the second call: a plan has one consumer.
  HostWeightPlan take_host_weight_plan();

 private:
  std::optional<HostWeightPlan> plan_;
};

}  // namespace lamina
