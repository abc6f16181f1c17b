#pragma once

#include <vector>

#include "tensor/tensor_spec.h"
#include "weights/checkpoint.h"

namespace lamina {

/// The elements of an F32, BF16 or F16 tensor on the host. Throws as `Checkpoint::view` does, not_implemented naming
/// file and tensor for other dtypes.
std::vector<float> read_floats(const Checkpoint& checkpoint, const TensorSpec& spec);

}  // namespace lamina
