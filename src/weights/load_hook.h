#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tensor/tensor_spec.h"
#include "weights/weight_binding.h"

namespace lamina {

/// A tensor of a model on the host, whole, for as long as a hook looks at it.
class LoadedTensor {
 public:
  LoadedTensor(const WeightBinding& binding, std::span<const std::byte> bytes) : binding_(binding), bytes_(bytes) {}

  const TensorSpec& spec() const noexcept { return binding_.tensor; }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// The elements; throws not_implemented for dtypes other than F32 and BF16.
  std::vector<float> floats() const;
  /// Throws corrupt naming file and tensor beside `reason`.
  [[noreturn]] void reject(const std::string& reason) const;

 private:
  const WeightBinding& binding_;
  std::span<const std::byte> bytes_;
};

/// What a model does with weights once they are bound and before any of them is used: it proves something of their
/// values, or keeps what it derives from them, as a buffer that no checkpoint holds. A hook sees tensors by the model's
/// names and as the images will hold them, so the same ones whatever the backing. It changes none: docs/adr/0006.
struct LoadHook {
  std::vector<TensorSpec> tensors;  ///< small ones: each is read whole
  std::function<void(const LoadedTensor& tensor)> run;
};

/// Runs each hook on each of its tensors, in order. Throws internal for a tensor that is not bound, what `pack_weight`
/// and the hooks throw.
void run_load_hooks(std::span<const LoadHook> hooks, std::span<const WeightBinding> bindings);

/// Every scale and bias, the tensors of one axis, is finite; else corrupt, naming file, tensor and place. One such
/// value would make the whole picture NaN.
LoadHook finite_vectors(const std::vector<TensorSpec>& tensors);

}  // namespace lamina
