#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/tensor_spec.h"
#include "weights/checkpoint.h"
#include "weights/safetensors.h"

namespace lamina {

/// Rows of a stored tensor in the order in which a runtime tensor takes them: runs of `run` rows, of which the i-th
/// begins at row `first + i * stride`. A row is all that shares the first index.
struct RowRuns {
  std::int64_t first = 0;
  std::int64_t run = 0;
  std::int64_t stride = 0;
};

/// How a checkpoint stores a tensor that the model knows by another name, shape or order. A cast is no matter of the
/// form: it follows from the two dtypes.
struct StoredForm {
  std::string tensor;           ///< the checkpoint's name
  std::optional<RowRuns> rows;  ///< nullopt: all rows in order
  bool transposed = false;      ///< stored [columns, rows]; excludes `rows`
};

/// The loader's table of such tensors, asked with the model's name; nullopt: stored under that name, as it is.
using StoredFormOf = std::function<std::optional<StoredForm>(const std::string& name)>;

/// One tensor of the model and the stored bytes that make it up. The file belongs to the checkpoint and must outlive
/// it. Immutable, so any thread may pack.
struct WeightBinding {
  TensorSpec tensor;  ///< as the model and its images hold it
  const SafetensorsFile* file = nullptr;
  StoredTensor stored;
  std::optional<RowRuns> rows;
  bool transposed = false;

  bool is_cast() const noexcept { return tensor.dtype != stored.spec.dtype; }
  /// Contiguous in the file and as stored there: packing is one read.
  bool is_plain() const noexcept { return !rows && !transposed && !is_cast(); }
};

/// The binding of a tensor of the model, as `stored_as` (may be empty) tells. Throws not_found naming file and tensor
/// where the checkpoint lacks it, incompatible naming file, tensor, what was found and what was expected where shapes
/// do not agree or no cast leads from the stored dtype to the tensor's: casts are between F32 and BF16, and only for
/// tensors that `stored_as` knows; others must match exactly.
WeightBinding bind_weight(const Checkpoint& checkpoint, const TensorSpec& tensor, const StoredFormOf& stored_as);

/// Fills `destination` with the bytes of the tensor from `offset_bytes` on; both are multiples of the element size.
/// The one way from checkpoint to image, whoever holds the image. Scratch stays below 3 MiB beyond one stored row, and
/// below a quarter MiB for what is not transposed. Throws as `InputFile::read_at` and `check_unchanged` do.
void pack_weight(const WeightBinding& binding, std::size_t offset_bytes, std::span<std::byte> destination);

/// Hints that the bytes of [offset_bytes, offset_bytes + size_bytes) of the tensor will be packed soon; exact for plain
/// bindings, the whole stored tensor for others.
void read_ahead(const WeightBinding& binding, std::size_t offset_bytes, std::size_t size_bytes) noexcept;

}  // namespace lamina
