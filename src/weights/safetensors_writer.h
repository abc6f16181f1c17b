#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "tensor/tensor_spec.h"
#include "tensor/tensor_view.h"

namespace lamina {

/// Writes a safetensors file whose tensors are known beforehand and whose bytes come piece by piece, in order, so that
/// no more than a piece is ever in memory. The header is padded with spaces so that the data starts at a multiple of 8
/// bytes. `file` outlives the writer; the caller commits it.
class SafetensorsWriter {
 public:
  /// Writes the header. Throws as `AtomicFile::write` does, and internal for equal names and for the reserved name
  /// "__metadata__".
  SafetensorsWriter(AtomicFile& file, std::span<const TensorSpec> tensors);

  /// The next bytes of the data; a piece may end anywhere. Throws as `AtomicFile::write` does, and internal for more
  /// bytes than the tensors have.
  void write(std::span<const std::byte> bytes);
  /// Throws internal unless all bytes were written.
  void finish() const;

 private:
  AtomicFile& file_;
  std::size_t missing_bytes_ = 0;
};

/// A tensor of the host under the name it is written by. The bytes stay the owner's.
struct NamedTensor {
  std::string name;
  ConstTensorView tensor;
};

/// Writes a whole safetensors file into `file`, in the given order; the caller commits it. The bytes of the tensors are
/// written from where they stand, without a copy of them. Equal tensors give equal files. Throws as `SafetensorsWriter`
/// does, and internal for views that are not contiguous.
void write_safetensors(AtomicFile& file, std::span<const NamedTensor> tensors);

}  // namespace lamina
