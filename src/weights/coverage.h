#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weights/checkpoint.h"
#include "weights/host_weight_plan.h"

namespace lamina {

/// Proves that the checkpoint holds every tensor of the demand with its dtype and shape, and returns the names of those
/// stored tensors that are neither consumed nor known to be unused, sorted: signs of a model that is not quite the
/// supported one. Throws not_found naming component, file and tensor for a missing one; incompatible naming file,
/// tensor, what was found and what was expected for a different one, and for a stored tensor that is taken apart and
/// whose rows are not each consumed exactly once.
std::vector<std::string> check_coverage(const Checkpoint& checkpoint, const WeightDemand& demand);

/// Whether the name is one of `known_unused`, or begins with one that ends in '.'.
bool is_known_unused(std::string_view name, const std::vector<std::string>& known_unused);

}  // namespace lamina
