#pragma once

#include <span>
#include <string>

#include "base/file.h"
#include "tensor/tensor_view.h"

namespace lamina {

/// A tensor of the host under the name it is written by. The bytes stay the owner's.
struct NamedTensor {
  std::string name;
  ConstTensorView tensor;
};

/// Writes a whole safetensors file into `file`, in the given order; the caller commits it. The bytes of the tensors are
/// written from where they stand, without a copy of them. The header is padded with spaces so that the data starts at a
/// multiple of 8 bytes. Equal tensors give equal files. Throws as `AtomicFile::write` does, and internal for views that
/// are not contiguous, for equal names and for the reserved name "__metadata__".
void write_safetensors(AtomicFile& file, std::span<const NamedTensor> tensors);

}  // namespace lamina
