#include "models/flux2_vae/flux2_vae_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace lamina {
namespace {

constexpr std::int64_t kMostChannels = 1 << 16;
constexpr std::int64_t kMostLevels = 10;
constexpr std::int64_t kMostResnets = 1000;
constexpr std::int64_t kLargestSample = 1 << 16;

std::vector<std::int64_t> read_channels(const ConfigReader& reader, std::string_view field, std::int64_t groups) {
  std::vector<std::int64_t> channels = reader.integers(field, 1, kMostChannels);
  const auto levels = static_cast<std::int64_t>(channels.size());
  if (levels < 1 || levels > kMostLevels)
    reader.reject(field, fmt::format("{} levels, expected 1 to {}", levels, kMostLevels));
  for (const std::int64_t count : channels)
    if (count % groups != 0)
      reader.reject(field, fmt::format("{} channels do not form norm_num_groups = {} groups", count, groups));
  return channels;
}

/// Every level has a block of the one supported type.
void check_block_types(const ConfigReader& reader, std::string_view field, std::string_view supported,
                       std::int64_t levels) {
  if (!reader.has(field)) return;
  const Json& types = reader.json().at(std::string(field));
  const auto is_supported = [&](const Json& type) { return type == supported; };
  if (!types.is_array() || static_cast<std::int64_t>(types.size()) != levels ||
      !std::all_of(types.begin(), types.end(), is_supported))
    reader.reject(field, fmt::format("found {}, expected {} times \"{}\"", types.dump(), levels, supported));
}

void check_activation(const ConfigReader& reader) {
  const std::string name = reader.text_or("act_fn", "silu");
  if (name != "silu" && name != "swish") reader.reject("act_fn", fmt::format("found \"{}\", expected \"silu\"", name));
}

void check_patch(const ConfigReader& reader) {
  constexpr std::int64_t kSide = Flux2VaeConfig::kPatchSide;
  const std::vector<std::int64_t> sides = reader.integers("patch_size", kSide, kSide);
  if (sides.size() != 2) reader.reject("patch_size", fmt::format("{} sides, expected 2", sides.size()));
}

double read_batch_norm_epsilon(const ConfigReader& reader) {
  const double epsilon = reader.number("batch_norm_eps");
  if (epsilon <= 0) reader.reject("batch_norm_eps", fmt::format("{} is not positive", epsilon));
  return epsilon;
}

}  // namespace

Flux2VaeConfig Flux2VaeConfig::read(const ConfigReader& reader) {
  reader.integer("in_channels", kImageChannels, kImageChannels);
  reader.integer("out_channels", kImageChannels, kImageChannels);
  check_activation(reader);
  check_patch(reader);

  Flux2VaeConfig config;
  config.latent_channels = reader.integer("latent_channels", 1, kMostChannels);
  const std::int64_t groups = reader.integer("norm_num_groups", 1, kMostChannels);
  config.norm_groups = static_cast<int>(groups);
  config.encoder_channels = read_channels(reader, "block_out_channels", groups);
  const bool own_decoder_channels = reader.has("decoder_block_out_channels");
  config.decoder_channels =
      own_decoder_channels ? read_channels(reader, "decoder_block_out_channels", groups) : config.encoder_channels;
  if (config.decoder_channels.size() != config.encoder_channels.size())
    reader.reject("decoder_block_out_channels",
                  fmt::format("{} levels, block_out_channels has {}", config.decoder_channels.size(), config.levels()));
  check_block_types(reader, "down_block_types", "DownEncoderBlock2D", config.levels());
  check_block_types(reader, "up_block_types", "UpDecoderBlock2D", config.levels());

  config.encoder_resnets = reader.integer("layers_per_block", 1, kMostResnets);
  config.decoder_resnets = config.encoder_resnets + 1;
  // The defaults of the class where a file does not say.
  config.has_mid_attention = reader.boolean_or("mid_block_add_attention", true);
  config.has_quant_conv = reader.boolean_or("use_quant_conv", true);
  config.has_post_quant_conv = reader.boolean_or("use_post_quant_conv", true);
  config.batch_norm_epsilon = read_batch_norm_epsilon(reader);
  config.sample_size = reader.integer("sample_size", 1, kLargestSample);
  return config;
}

}  // namespace lamina
