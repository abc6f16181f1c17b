#include "weights/load_hook.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "base/error.h"
#include "base/json.h"
#include "tensor/bf16.h"

namespace lamina {

std::vector<float> LoadedTensor::floats() const {
  const std::size_t element_bytes = size_of(spec().dtype);
  std::vector<float> values(bytes_.size() / element_bytes);
  if (spec().dtype == DType::f32) {
    std::memcpy(values.data(), bytes_.data(), bytes_.size());
  } else if (spec().dtype == DType::bf16) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, bytes_.data() + i * element_bytes, element_bytes);
      values[i] = widen(half);
    }
  } else {
    fail(ErrorCode::not_implemented, "tensor {} is {}; its values are read of F32 and BF16 alone", spec().name,
         to_string(spec().dtype));
  }
  return values;
}

void LoadedTensor::reject(const std::string& reason) const {
  fail(ErrorCode::corrupt, "{}: tensor {}: {}", binding_.file->path().string(), excerpt(spec().name), reason);
}

void run_load_hooks(std::span<const LoadHook> hooks, std::span<const WeightBinding> bindings) {
  std::vector<std::byte> bytes;
  for (const LoadHook& hook : hooks) {
    for (const TensorSpec& tensor : hook.tensors) {
      const auto binding = std::ranges::find(bindings, tensor, &WeightBinding::tensor);
      expects(binding != bindings.end(), "a hook reads {}, which is not bound", to_string(tensor));
      bytes.resize(tensor.size_bytes());
      pack_weight(*binding, 0, bytes);
      hook.run(LoadedTensor(*binding, bytes));
    }
  }
}

LoadHook finite_vectors(const std::vector<TensorSpec>& tensors) {
  LoadHook hook;
  std::ranges::copy_if(tensors, std::back_inserter(hook.tensors),
                       [](const TensorSpec& tensor) { return tensor.shape.rank() == 1; });
  hook.run = [](const LoadedTensor& tensor) {
    const std::vector<float> values = tensor.floats();
    const auto wrong = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
    if (wrong != values.end())
      tensor.reject(fmt::format("element {} is {}; a finite number is expected", wrong - values.begin(), *wrong));
  };
  return hook;
}

}  // namespace lamina
