#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/tensor_spec.h"
#include "weights/checkpoint.h"
#include "weights/safetensors.h"

namespace lamina {

/// Rows of a stored tensor in the order in which a runtime tensor takes them: runs of `run` rows, of which the i-th
/// begins at row `first + i * stride`; the stride may be negative. A row is all that shares the first index.
struct RowRuns {
  std::int64_t first = 0;
  std::int64_t run = 0;
  std::int64_t stride = 0;
};

/// Changes the values of a tensor on their way from the checkpoint to an image. Immutable, so any thread may call it.
class WeightChange {
 public:
  virtual ~WeightChange() = default;
  /// `values` are elements [first_element, + size) of the model's tensor, in row-major order; changes them in place.
  /// What an element becomes depends on no other one of the call: a tensor is packed in pieces of any size.
  virtual void apply(std::int64_t first_element, std::span<float> values) const = 0;
};

/// In the order in which they apply; none: the tensor is as it is stored.
using WeightChanges = std::vector<std::shared_ptr<const WeightChange>>;

/// How a checkpoint stores a tensor that the model knows by another name, shape, order or value. A cast is no matter of
/// the form: it follows from the two dtypes.
struct StoredForm {
  std::string tensor;           ///< the checkpoint's name
  std::optional<RowRuns> rows;  ///< nullopt: all rows in order
  bool transposed = false;      ///< stored [columns, rows]; excludes `rows`
  WeightChanges changes = {};   ///< made in f32, behind regrouping and transposing
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
  WeightChanges changes;

  bool is_cast() const noexcept { return tensor.dtype != stored.spec.dtype; }
  /// The elements follow each other in the file as in the tensor.
  bool is_in_order() const noexcept { return !rows && !transposed; }
};

/// The binding of a tensor of the model, as `stored_as` (may be empty) tells. Throws not_found naming file and tensor
/// where the checkpoint lacks it, incompatible naming file, tensor, what was found and what was expected where shapes
/// do not agree or no cast leads from the stored dtype to the tensor's: F16 is cast to F32 and BF16 wherever it stands,
/// F32 and BF16 to each other only for tensors that `stored_as` knows.
WeightBinding bind_weight(const Checkpoint& checkpoint, const TensorSpec& tensor, const StoredFormOf& stored_as);

/// Fills `destination` with the bytes of the tensor from `offset_bytes` on; both are multiples of the element size.
/// The one way from checkpoint to image, whoever holds the image: regrouped or transposed, changed, cast, in this
/// order. Scratch stays below 5 MiB beyond one stored row, and below half a MiB for what is not transposed. Throws as
/// `InputFile::read_at` and `check_unchanged` do.
void pack_weight(const WeightBinding& binding, std::size_t offset_bytes, std::span<std::byte> destination);

/// Hints that the bytes of [offset_bytes, offset_bytes + size_bytes) of the tensor will be packed soon; exact for what
/// is stored in order, the whole stored tensor for the rest.
void read_ahead(const WeightBinding& binding, std::size_t offset_bytes, std::size_t size_bytes) noexcept;

}  // namespace lamina
