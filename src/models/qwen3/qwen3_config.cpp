#include "models/qwen3/qwen3_config.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace lamina {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;
constexpr std::int64_t kMostFeatures = 1 << 24;
constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kMostHeads = 4096;
constexpr std::int64_t kMostHeadDim = 4096;

double positive(const ConfigReader& reader, std::string_view field) {
  const double value = reader.number(field);
  if (value <= 0) reader.reject(field, fmt::format("{} is not positive", value));
  return value;
}

/// At top level in older files, inside `rope_parameters` in newer ones.
double read_rope_theta(const ConfigReader& reader) {
  if (reader.has("rope_scaling")) reader.reject("rope_scaling", "scaled rotations are not supported");
  if (!reader.has("rope_parameters")) return positive(reader, "rope_theta");
  const ConfigReader parameters = reader.object("rope_parameters");
  const std::string type = parameters.text_or("rope_type", "default");
  if (type != "default") parameters.reject("rope_type", fmt::format("'{}' is not supported, only 'default'", type));
  if (!parameters.has("rope_theta")) return positive(reader, "rope_theta");
  const double theta = positive(parameters, "rope_theta");
  const double outer_theta = reader.number_or("rope_theta", theta);
  if (outer_theta != theta)
    reader.reject("rope_theta", fmt::format("{} contradicts {} in rope_parameters", outer_theta, theta));
  return theta;
}

void refuse_sliding_windows(const ConfigReader& reader) {
  if (reader.boolean_or("use_sliding_window", false))
    reader.reject("use_sliding_window", "sliding-window attention is not supported");
  if (!reader.has("layer_types")) return;
  const Json& types = reader.json().at("layer_types");
  if (!types.is_array()) reader.reject("layer_types", "expected a list");
  for (const Json& type : types) {
    const bool is_full = type.is_string() && type.get_ref<const std::string&>() == "full_attention";
    if (!is_full)
      reader.reject("layer_types", fmt::format("{} is not supported, only \"full_attention\"", type.dump()));
  }
}

}  // namespace

Qwen3Config Qwen3Config::read(const ConfigReader& reader) {
  Qwen3Config config;
  config.vocabulary = reader.integer("vocab_size", 1, kMostTokens);
  reader.integer("max_position_embeddings", kPromptTokens, kMostTokens);
  config.hidden = reader.integer("hidden_size", 1, kMostFeatures);
  config.intermediate = reader.integer("intermediate_size", 1, kMostFeatures);
  config.layers = reader.integer("num_hidden_layers", kHiddenStates.back(), kMostLayers);
  config.heads = reader.integer("num_attention_heads", 1, kMostHeads);
  config.kv_heads = reader.integer("num_key_value_heads", 1, kMostHeads);
  if (config.heads % config.kv_heads != 0)
    reader.reject("num_key_value_heads",
                  fmt::format("{} does not divide {} attention heads", config.kv_heads, config.heads));
  config.head_dim = reader.integer("head_dim", 2, kMostHeadDim);
  if (config.head_dim % 2 != 0)
    reader.reject("head_dim", fmt::format("{} is odd, a rotation turns pairs of features", config.head_dim));
  config.rope_theta = read_rope_theta(reader);
  config.epsilon = static_cast<float>(positive(reader, "rms_norm_eps"));
  const std::string activation = reader.text("hidden_act");
  if (activation != "silu") reader.reject("hidden_act", fmt::format("'{}' is not supported, only 'silu'", activation));
  if (reader.boolean_or("attention_bias", false)) reader.reject("attention_bias", "biases are not supported");
  refuse_sliding_windows(reader);
  return config;
}

}  // namespace lamina
