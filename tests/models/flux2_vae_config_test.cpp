#include "models/flux2_vae/flux2_vae_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/config_refusal.h"
#include "models/device_run.h"
#include "models/flux2_vae/flux2_vae_decoder.h"
#include "models/flux2_vae/flux2_vae_encoder.h"

namespace lamina {
namespace {

using test::ConfigRefusal;

std::string config_file() {
  return test::tiny_shapes_dir() + "/vae/config.json";
}

Flux2VaeConfig read(const std::string& patch) {
  return Flux2VaeConfig::read(test::patched(config_file(), patch));
}

/// The sizes of the published model.
constexpr const char* kPublished = R"({"block_out_channels": [128, 256, 512, 512], "layers_per_block": 2,
                                       "norm_num_groups": 32, "sample_size": 1024})";

DType always_bf16(std::string_view /*name*/) {
  return DType::bf16;
}

std::vector<TensorSpec> members(const OffloadPlan& plan) {
  std::vector<TensorSpec> result;
  for (const ParameterGroup& group : plan.outside)
    result.insert(result.end(), group.members.begin(), group.members.end());
  return result;
}

std::int64_t parameter_count(const OffloadPlan& plan) {
  std::int64_t count = 0;
  for (const TensorSpec& spec : members(plan)) count += spec.shape.elements();
  return count;
}

bool has_member(const OffloadPlan& plan, std::string_view prefix) {
  const std::vector<TensorSpec> specs = members(plan);
  return std::any_of(specs.begin(), specs.end(), [&](const TensorSpec& spec) { return spec.name.starts_with(prefix); });
}

TEST(Flux2VaeConfig, ReadsEveryNumber) {
  const Flux2VaeConfig config = read("{}");
  EXPECT_EQ(config.latent_channels, 32);
  EXPECT_EQ(config.encoder_channels, (std::vector<std::int64_t>{32, 48, 64, 64}));
  EXPECT_EQ(config.decoder_channels, config.encoder_channels);
  EXPECT_EQ(config.encoder_resnets, 1);
  EXPECT_EQ(config.decoder_resnets, 2);
  EXPECT_EQ(config.norm_groups, 16);
  EXPECT_TRUE(config.has_mid_attention);
  EXPECT_TRUE(config.has_quant_conv);
  EXPECT_TRUE(config.has_post_quant_conv);
  EXPECT_EQ(config.batch_norm_epsilon, 1e-4);
  EXPECT_EQ(config.sample_size, 128);
  EXPECT_EQ(config.spatial_factor(), 8);
  EXPECT_EQ(config.packed_channels(), 128);
}

TEST(Flux2VaeConfig, SpatialFactorFollowsTheLevels) {
  const Flux2VaeConfig config =
      read(R"({"block_out_channels": [32, 48, 64], "down_block_types": null, "up_block_types": null})");
  EXPECT_EQ(config.spatial_factor(), 4);
}

TEST(Flux2VaeConfig, PublishedModelHasThePublishedSize) {
  const Flux2VaeConfig config = read(kPublished);
  const Flux2VaeEncoder encoder(config, always_bf16);
  const Flux2VaeDecoder decoder(config, always_bf16);
  EXPECT_EQ(encoder.plan().component, "vae.encoder");
  EXPECT_EQ(decoder.plan().component, "vae.decoder");
  // The batch norm has three more.
  EXPECT_EQ(members(encoder.plan()).size() + members(decoder.plan()).size(), 251U - 3U);
  EXPECT_EQ(parameter_count(encoder.plan()) + parameter_count(decoder.plan()), 84'046'115);
}

TEST(Flux2VaeConfig, DecoderMayHaveItsOwnWidths) {
  const Flux2VaeConfig config = read(R"({"decoder_block_out_channels": [16, 32, 48, 96]})");
  const std::vector<TensorSpec> specs = members(Flux2VaeDecoder(config, always_bf16).plan());
  const TensorSpec conv_in{"decoder.conv_in.weight", DType::bf16, {96, 32, 3, 3}};
  const TensorSpec shortcut{"decoder.up_blocks.1.resnets.0.conv_shortcut.weight", DType::bf16, {48, 96, 1, 1}};
  EXPECT_NE(std::find(specs.begin(), specs.end(), conv_in), specs.end());
  EXPECT_NE(std::find(specs.begin(), specs.end(), shortcut), specs.end());
  EXPECT_EQ(Flux2VaeEncoder(config, always_bf16).plan().outside.front().members.front().shape, Shape({32, 3, 3, 3}));
}

TEST(Flux2VaeConfig, OptionalLayersAreLeftOut) {
  const Flux2VaeConfig config =
      read(R"({"use_quant_conv": false, "use_post_quant_conv": false, "mid_block_add_attention": false})");
  Flux2VaeEncoder encoder(config, always_bf16);
  Flux2VaeDecoder decoder(config, always_bf16);
  EXPECT_FALSE(has_member(encoder.plan(), "quant_conv"));
  EXPECT_FALSE(has_member(decoder.plan(), "post_quant_conv"));
  EXPECT_FALSE(has_member(encoder.plan(), "encoder.mid_block.attentions"));
  EXPECT_FALSE(has_member(decoder.plan(), "decoder.mid_block.attentions"));
  EXPECT_TRUE(has_member(decoder.plan(), "decoder.mid_block.resnets.1"));

  test::DeviceRun device;
  const ShapeOnlyBinding bind_decoder(decoder.parameters());
  const ShapeOnlyBinding bind_encoder(encoder.parameters());
  const TensorView latent(nullptr, DType::f32, {2, 4, 32});
  const TensorView image(nullptr, DType::f32, {16, 32, 3});
  ops::OpContext context = ops::OpContext::planning(device.stream());
  Arena arena;
  EXPECT_NO_THROW(decoder.decode(context, arena, latent, image));
  EXPECT_NO_THROW(encoder.encode(context, arena, image, latent));
}

class Flux2VaeConfigRefusal : public testing::TestWithParam<ConfigRefusal> {};

TEST_P(Flux2VaeConfigRefusal, NamesFileFieldAndReason) {
  test::expect_refused<Flux2VaeConfig>(config_file(), GetParam());
}

constexpr ErrorCode kMissing = ErrorCode::not_found;
constexpr ErrorCode kWrong = ErrorCode::incompatible;

INSTANTIATE_TEST_SUITE_P(
    All, Flux2VaeConfigRefusal,
    testing::Values(
        ConfigRefusal{"NoChannels", R"({"block_out_channels": null})", kMissing, "block_out_channels", ""},
        ConfigRefusal{"NoLevels", R"({"block_out_channels": []})", kWrong, "block_out_channels", "0 levels"},
        ConfigRefusal{"ChannelsOffGroups", R"({"block_out_channels": [32, 40, 64, 64]})", kWrong, "block_out_channels",
                      "40 channels"},
        ConfigRefusal{"ZeroChannels", R"({"block_out_channels": [32, 0, 64, 64]})", kWrong, "block_out_channels", "0"},
        ConfigRefusal{"DecoderLevels", R"({"decoder_block_out_channels": [32, 48, 64]})", kWrong,
                      "decoder_block_out_channels", "3 levels"},
        ConfigRefusal{"NoLayers", R"({"layers_per_block": null})", kMissing, "layers_per_block", ""},
        ConfigRefusal{"ZeroLayers", R"({"layers_per_block": 0})", kWrong, "layers_per_block", "0"},
        ConfigRefusal{"LatentChannels", R"({"latent_channels": -1})", kWrong, "latent_channels", "-1"},
        ConfigRefusal{"NoGroups", R"({"norm_num_groups": null})", kMissing, "norm_num_groups", ""},
        ConfigRefusal{"ImageChannels", R"({"in_channels": 4})", kWrong, "in_channels", "4"},
        ConfigRefusal{"OutChannels", R"({"out_channels": 1})", kWrong, "out_channels", "1"},
        ConfigRefusal{"Activation", R"({"act_fn": "gelu"})", kWrong, "act_fn", "gelu"},
        ConfigRefusal{"PatchSide", R"({"patch_size": [2, 4]})", kWrong, "patch_size", "4"},
        ConfigRefusal{"PatchSides", R"({"patch_size": [2]})", kWrong, "patch_size", "1 sides"},
        ConfigRefusal{"Epsilon", R"({"batch_norm_eps": 0})", kWrong, "batch_norm_eps", "not positive"},
        ConfigRefusal{"SampleSize", R"({"sample_size": 0})", kWrong, "sample_size", "0"},
        ConfigRefusal{"QuantConv", R"({"use_quant_conv": "yes"})", kWrong, "use_quant_conv", "yes"},
        ConfigRefusal{"DownBlockCount", R"({"down_block_types": ["DownEncoderBlock2D"]})", kWrong, "down_block_types",
                      "4 times"},
        ConfigRefusal{"DownBlockList", R"({"down_block_types": "DownEncoderBlock2D"})", kWrong, "down_block_types",
                      "4 times"},
        ConfigRefusal{"UpBlockType", R"({"up_block_types": ["A", "A", "A", "A"]})", kWrong, "up_block_types", "\"A\""}),
    test::refusal_name);

}  // namespace
}  // namespace lamina
