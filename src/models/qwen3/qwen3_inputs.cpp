#include "models/qwen3/qwen3_inputs.h"

#include <cmath>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "weights/element_cast.h"

namespace lamina {
namespace {

/// Weights that are stored as F16 are BF16 in the model, these as well.
void load_row(const std::byte* row, DType stored, std::span<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  std::byte* destination = std::as_writable_bytes(values).data();
  if (stored == DType::f32) {
    std::memcpy(destination, row, values.size_bytes());
  } else if (stored == DType::f16) {
    std::vector<std::byte> narrowed(values.size() * size_of(DType::bf16));
    cast_elements(row, DType::f16, narrowed.data(), DType::bf16, count);
    cast_elements(narrowed.data(), DType::bf16, destination, DType::f32, count);
  } else {
    cast_elements(row, stored, destination, DType::f32, count);
  }
}

}  // namespace

RopeTable qwen3_rope_table(const Qwen3Config& config, std::int64_t tokens) {
  const auto theta = static_cast<float>(config.rope_theta);
  const auto features = static_cast<float>(config.head_dim);
  RopeTable table;
  for (std::int64_t position = 0; position < tokens; ++position) {
    for (std::int64_t j = 0; 2 * j < config.head_dim; ++j) {
      const float frequency = 1.0F / std::pow(theta, static_cast<float>(2 * j) / features);
      const float angle = static_cast<float>(position) * frequency;
      table.cos.push_back(std::cos(angle));
      table.sin.push_back(std::sin(angle));
    }
  }
  return table;
}

std::vector<float> gather_embeddings(const ConstTensorView& table, std::span<const std::int32_t> ids) {
  expects(table.rank() == 2 && table.is_contiguous(),
          "an embedding matrix is {}; a contiguous one of rank 2 is expected", to_string(table.shape()));
  const std::int64_t hidden = table.size(1);
  std::vector<float> result(ids.size() * static_cast<std::size_t>(hidden));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int32_t id = ids[i];
    if (id < 0 || id >= table.size(0))
      fail(ErrorCode::incompatible, "token id {}: the text encoder embeds ids 0 to {}; tokenizer and encoder differ",
           id, table.size(0) - 1);
    const std::byte* row = table.slice(0, id, id + 1).data();
    float* destination = result.data() + static_cast<std::int64_t>(i) * hidden;
    load_row(row, table.dtype(), {destination, static_cast<std::size_t>(hidden)});
  }
  return result;
}

}  // namespace lamina
