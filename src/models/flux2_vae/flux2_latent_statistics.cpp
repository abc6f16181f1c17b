#include "models/flux2_vae/flux2_latent_statistics.h"

#include <cmath>

#include "base/error.h"
#include "models/read_floats.h"

namespace lamina {
namespace {

constexpr const char* kMeanName = "bn.running_mean";
constexpr const char* kVarianceName = "bn.running_var";

/// The tensor as f32, one value for each channel.
std::vector<float> read_channels(const Checkpoint& checkpoint, const TensorSpec& spec) {
  std::vector<float> values = read_floats(checkpoint, spec);
  for (std::size_t i = 0; i < values.size(); ++i)
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
  Flux2LatentStatistics statistics{read_channels(checkpoint, specs[0]), read_channels(checkpoint, specs[1])};
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
