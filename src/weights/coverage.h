#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor_spec.h"
#include "weights/checkpoint.h"

namespace lamina {

/// What a component takes from its checkpoint.
struct TensorDemand {
  std::string_view component;                 ///< "transformer", for messages
  std::span<const TensorSpec> consumed;       ///< every tensor that is loaded
  std::span<const std::string> known_unused;  ///< names, or prefixes ending in '.', that are left alone on purpose
};

/// Proves that the checkpoint holds every consumed tensor with its dtype and shape, and returns the names of those that
/// are neither consumed nor known to be unused, sorted: signs of a model that is not quite the supported one. Throws
/// not_found naming component, file and tensor for a missing one; incompatible naming file, tensor, what was found and
/// what was expected for a different one.
std::vector<std::string> check_coverage(const Checkpoint& checkpoint, const TensorDemand& demand);

}  // namespace lamina
