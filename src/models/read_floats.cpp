#include "models/read_floats.h"

#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "ops/bf16.h"

namespace lamina {

std::vector<float> read_floats(const Checkpoint& checkpoint, const TensorSpec& spec) {
  const ConstTensorView view = checkpoint.view(spec);
  const std::size_t count = static_cast<std::size_t>(spec.shape.elements());
  std::vector<float> values(count);
  // Tensors of a file may be unaligned.
  if (spec.dtype == DType::f32) {
    std::memcpy(values.data(), view.data(), spec.size_bytes());
  } else if (spec.dtype == DType::bf16) {
    std::vector<std::uint16_t> halves(count);
    std::memcpy(halves.data(), view.data(), spec.size_bytes());
    for (std::size_t i = 0; i < count; ++i) values[i] = ops::widen(halves[i]);
  } else {
    fail(ErrorCode::not_implemented, "{}: tensor {} is stored as {}, expected F32 or BF16", checkpoint.path().string(),
         spec.name, to_string(spec.dtype));
  }
  return values;
}

}  // namespace lamina
