#include "models/qwen3/qwen3_inputs.h"

#include <cmath>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "ops/bf16.h"

namespace lamina {
namespace {

float load_bf16(const std::byte* bytes) {
  std::uint16_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return ops::widen(value);
}

float load_f32(const std::byte* bytes) {
  float value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
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
  expects(table.rank() == 2 && table.is_contiguous() && (table.dtype() == DType::f32 || table.dtype() == DType::bf16),
          "an embedding matrix is {} {}, expected F32 or BF16 of rank 2", to_string(table.dtype()),
          to_string(table.shape()));
  const auto load = table.dtype() == DType::f32 ? load_f32 : load_bf16;
  std::vector<float> result;
  result.reserve(ids.size() * static_cast<std::size_t>(table.size(1)));
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= table.size(0))
      fail(ErrorCode::incompatible, "token id {}: the text encoder embeds ids 0 to {}; tokenizer and encoder differ",
           id, table.size(0) - 1);
    const ConstTensorView row = table.slice(0, id, id + 1);
    for (std::size_t at = 0; at < row.span_bytes(); at += size_of(table.dtype()))
      result.push_back(load(row.data() + at));
  }
  return result;
}

}  // namespace lamina
