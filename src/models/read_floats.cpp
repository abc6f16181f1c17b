#include "models/read_floats.h"

#include <cstring>
#include <span>

#include "base/error.h"
#include "weights/element_cast.h"

namespace lamina {

std::vector<float> read_floats(const Checkpoint& checkpoint, const TensorSpec& spec) {
  const ConstTensorView view = checkpoint.view(spec);
  std::vector<float> values(static_cast<std::size_t>(spec.shape.elements()));
  if (spec.dtype == DType::f32)
    std::memcpy(values.data(), view.data(), spec.size_bytes());  // tensors of a file may be unaligned
  else if (can_cast(spec.dtype, DType::f32))
    cast_elements(view.data(), spec.dtype, std::as_writable_bytes(std::span(values)).data(), DType::f32,
                  spec.shape.elements());
  else
    fail(ErrorCode::not_implemented, "{}: tensor {} is stored as {}; F32, BF16 or F16 is expected",
         checkpoint.path().string(), spec.name, to_string(spec.dtype));
  return values;
}

}  // namespace lamina
