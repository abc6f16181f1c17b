#include "ops/bf16.h"

#include <algorithm>

#include "base/error.h"

namespace lamina::ops {

void widen(const ConstTensorView& source, float* destination) {
  const auto count = source.shape().elements();
  if (source.dtype() == DType::f32) {
    std::copy_n(source.as<float>(), count, destination);
    return;
  }
  expects(source.dtype() == DType::bf16, "widening {} is not supported", to_string(source.dtype()));
  const auto* elements = source.as<std::uint16_t>();
  for (std::int64_t i = 0; i < count; ++i) destination[i] = widen(elements[i]);
}

const std::byte* as_f32(const ConstTensorView& view, float* space) {
  if (view.dtype() == DType::f32) return view.data();
  widen(view, space);
  return reinterpret_cast<const std::byte*>(space);
}

std::size_t widened_bytes(const ConstTensorView& view) {
  return view.dtype() == DType::f32 ? 0 : static_cast<std::size_t>(view.shape().elements()) * sizeof(float);
}

}  // namespace lamina::ops
