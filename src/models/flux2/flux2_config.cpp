#include "models/flux2/flux2_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace lamina {
namespace {

constexpr std::int64_t kMostChannels = 1 << 20;
constexpr std::int64_t kMostBlocks = 10'000;
constexpr std::int64_t kMostHeads = 4096;
constexpr std::int64_t kMostHeadDim = 4096;
constexpr std::int64_t kMostMlpWidth = 1 << 28;

double positive(const ConfigReader& reader, std::string_view field) {
  const double value = reader.number(field);
  if (value <= 0) reader.reject(field, fmt::format("{} is not positive", value));
  return value;
}

std::array<std::int64_t, Flux2Config::kAxes> read_rope_axes(const ConfigReader& reader, std::int64_t head_dim) {
  constexpr std::string_view kField = "axes_dims_rope";
  const std::vector<std::int64_t> dims = reader.integers(kField, 2, kMostHeadDim);
  if (dims.size() != Flux2Config::kAxes)
    reader.reject(kField, fmt::format("{} axes, a token has {} coordinates", dims.size(), Flux2Config::kAxes));
  for (const std::int64_t dim : dims)
    if (dim % 2 != 0) reader.reject(kField, fmt::format("{} is odd, a rotation turns pairs of features", dim));
  const std::int64_t sum = std::accumulate(dims.begin(), dims.end(), std::int64_t{0});
  if (sum != head_dim) reader.reject(kField, fmt::format("the sum is {}, attention_head_dim is {}", sum, head_dim));
  std::array<std::int64_t, Flux2Config::kAxes> axes{};
  std::copy(dims.begin(), dims.end(), axes.begin());
  return axes;
}

std::int64_t read_mlp_width(const ConfigReader& reader, std::int64_t width) {
  const double mlp_width = static_cast<double>(width) * positive(reader, "mlp_ratio");
  if (mlp_width < 1 || mlp_width > kMostMlpWidth)
    reader.reject("mlp_ratio",
                  fmt::format("gives a feed-forward width of {}, expected 1 to {}", mlp_width, kMostMlpWidth));
  return static_cast<std::int64_t>(mlp_width);
}

}  // namespace

Flux2Config Flux2Config::read(const ConfigReader& reader) {
  Flux2Config config;
  reader.integer("patch_size", 1, 1);
  config.in_channels = reader.integer("in_channels", 1, kMostChannels);
  config.out_channels = reader.integer_or("out_channels", config.in_channels, 1, kMostChannels);
  config.text_channels = reader.integer("joint_attention_dim", 1, kMostChannels);
  config.timestep_channels = reader.integer("timestep_guidance_channels", 2, kMostChannels);
  if (config.timestep_channels % 2 != 0)
    reader.reject("timestep_guidance_channels",
                  fmt::format("{} is odd, half of it are cosines, half sines", config.timestep_channels));
  config.double_blocks = reader.integer("num_layers", 1, kMostBlocks);
  config.single_blocks = reader.integer("num_single_layers", 1, kMostBlocks);
  config.heads = reader.integer("num_attention_heads", 1, kMostHeads);
  config.head_dim = reader.integer("attention_head_dim", 2, kMostHeadDim);
  config.mlp_width = read_mlp_width(reader, config.width());
  config.rope_axes = read_rope_axes(reader, config.head_dim);
  config.rope_theta = positive(reader, "rope_theta");
  config.epsilon = static_cast<float>(positive(reader, "eps"));
  // Files written before the field existed belong to models that have the embedding, the class's default.
  config.has_guidance = reader.boolean_or("guidance_embeds", true);
  return config;
}

}  // namespace lamina
