#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace lamina {

/// Whether `cast_elements` leads from one dtype to the other: between F32 and BF16, and from F16 to both. The dtypes
/// differ.
bool can_cast(DType from, DType to) noexcept;

/// Casts `count` elements, rounding to nearest even. Neither side need be aligned for its elements; they do not
/// overlap. An F16 value that rounds to BF16 neither overflows nor becomes subnormal. Throws internal unless
/// `can_cast`.
void cast_elements(const std::byte* source, DType from, std::byte* destination, DType to, std::int64_t count);

}  // namespace lamina
