#include "tensor/tensor_spec.h"

#include "base/bytes.h"
#include "base/error.h"

namespace lamina {

std::size_t TensorSpec::size_bytes() const {
  const auto size = checked_mul(static_cast<std::size_t>(shape.elements()), size_of(dtype));
  expects(size.has_value(), "the size of tensor {} overflows", to_string(*this));
  return *size;
}

std::string to_string(const TensorSpec& spec) {
  return fmt::format("{} {} {}", spec.name, to_string(spec.dtype), to_string(spec.shape));
}

}  // namespace lamina
