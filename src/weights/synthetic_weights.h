#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/tensor_spec.h"

namespace lamina {

/// Fills `bytes` with those of a bf16 tensor of a random checkpoint, from `offset_bytes` on. A value depends on the
/// seed, the tensor's name and shape, and the element's index alone, so pieces may be made in any order, on any
/// threads, in files of any number.
///
/// Values are such that activations stay of the size of the inputs: matrices and kernels are uniform with mean 0 and
/// standard deviation 1 / sqrt(fan in), the product of all extents but the first; tensors of one axis are scales and
/// variances, and 1, but for those named as a bias or a mean, which are 0.
///
/// Throws not_implemented for other dtypes, internal for a range that is not made of the tensor's elements.
void fill_synthetic(const TensorSpec& tensor, std::uint64_t seed, std::size_t offset_bytes, std::span<std::byte> bytes);

}  // namespace lamina
