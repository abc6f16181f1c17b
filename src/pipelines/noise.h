#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace lamina {

/// The values that `torch.randn(count, dtype=...)` draws from a fresh CPU generator seeded with `seed`, so that a seed
/// gives the picture that users of PyTorch know. float32 values agree to the last bits of log, cos and sin; bfloat16
/// values agree exactly. Throws not_implemented for a dtype other than f32 and bf16.
/// As there, only the low 32 bits of the seed count.
std::vector<float> torch_randn(std::uint64_t seed, std::size_t count, DType dtype);

}  // namespace lamina
