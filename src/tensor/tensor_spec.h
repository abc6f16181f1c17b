#pragma once

#include <cstddef>
#include <string>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace lamina {

/// Name, dtype and shape of a tensor, without its bytes.
struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;

  /// Bytes of the contiguous tensor; throws internal on overflow (readers of files check shapes before).
  std::size_t size_bytes() const;
  bool operator==(const TensorSpec&) const = default;
};

/// "x_embedder.weight BF16 [160, 128]".
std::string to_string(const TensorSpec& spec);

}  // namespace lamina
