#include "models/flux2_vae/flux2_latent_statistics.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "ops/bf16.h"

namespace lamina {
namespace {

constexpr const char* kMeanName = "bn.running_mean";
constexpr const char* kVarianceName = "bn.running_var";

/// The tensor as f32, from bytes that may be unaligned.
std::vector<float> read_floats(const Checkpoint& checkpoint, const TensorSpec& spec) {
  const ConstTensorView view = checkpoint.view(spec);
  const std::size_t count = static_cast<std::size_t>(spec.shape.elements());
  std::vector<float> values(count);
  if (spec.dtype == DType::f32) {
    std::memcpy(values.data(), view.data(), spec.size_bytes());
  } else if (spec.dtype == DType::bf16) {
    std::vector<std::uint16_t> halves(count);
    std::memcpy(halves.data(), view.data(), spec.size_bytes());
    for (std::size_t i = 0; i < count; ++i) values[i] = ops::widen(halves[i]);
  } else {
    fail(ErrorCode::not_implemented, "{}: tensor {} is stored as {}, expected F32 or BF16", checkpoint.path().string(),
         spec.name, to_string(spec.dtype));
  }
  for (std::size_t i = 0; i < count; ++i)
    if (!std::isfinite(values[i]))
      fail(ErrorCode::corrupt, "{}: tensor {} holds {} for channel {}", checkpoint.path().string(), spec.name,
           values[i], i);
  return values;
}

}  // namespace

std::vector<TensorSpec> Flux2LatentStatistics::tensors(const Flux2VaeConfig& config, const DTypeOf& dtype_of) {
  const Shape shape{config.packed_channels()};
  return {{kMeanName, dtype_of(kMeanName), shape}, {kVarianceName, dtype_of(kVarianceName), shape}};
}

Flux2LatentStatistics Flux2LatentStatistics::read(const Flux2VaeConfig& config, const Checkpoint& checkpoint) {
  const auto specs = tensors(config, [&](std::string_view name) { return checkpoint.dtype_of(name); });
  Flux2LatentStatistics statistics{read_floats(checkpoint, specs[0]), read_floats(checkpoint, specs[1])};
  for (std::size_t i = 0; i < statistics.deviation.size(); ++i) {
    float& value = statistics.deviation[i];
    if (value < 0)
      fail(ErrorCode::corrupt, "{}: tensor {} holds the variance {} for channel {}", checkpoint.path().string(),
           kVarianceName, value, i);
    value = static_cast<float>(std::sqrt(static_cast<double>(value) + config.batch_norm_epsilon));
  }
  return statistics;
}

}  // namespace lamina
