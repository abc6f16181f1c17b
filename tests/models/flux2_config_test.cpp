#include "models/flux2/flux2_config.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "models/config_refusal.h"
#include "models/device_run.h"

namespace lamina {
namespace {

using test::ConfigRefusal;

std::string config_file() {
  return test::tiny_shapes_dir() + "/transformer/config.json";
}

TEST(Flux2Config, ReadsEveryNumber) {
  const Flux2Config config = Flux2Config::read(ConfigReader::read(config_file()));
  EXPECT_EQ(config.in_channels, 128);
  EXPECT_EQ(config.out_channels, 128);
  EXPECT_EQ(config.text_channels, 192);
  EXPECT_EQ(config.timestep_channels, 256);
  EXPECT_EQ(config.double_blocks, 4);
  EXPECT_EQ(config.single_blocks, 12);
  EXPECT_EQ(config.heads, 5);
  EXPECT_EQ(config.head_dim, 32);
  EXPECT_EQ(config.width(), 160);
  EXPECT_EQ(config.mlp_width, 480);
  EXPECT_EQ(config.rope_axes, (std::array<std::int64_t, 4>{8, 8, 8, 8}));
  EXPECT_EQ(config.rope_theta, 2000);
  EXPECT_EQ(config.epsilon, 1e-6F);
  EXPECT_FALSE(config.has_guidance);
}

TEST(Flux2Config, OptionalFields) {
  const Flux2Config config =
      Flux2Config::read(test::patched(config_file(), R"({"out_channels": 64, "guidance_embeds": null})"));
  EXPECT_EQ(config.out_channels, 64);
  EXPECT_TRUE(config.has_guidance);
}

class Flux2ConfigRefusal : public testing::TestWithParam<ConfigRefusal> {};

TEST_P(Flux2ConfigRefusal, NamesFileFieldAndReason) {
  test::expect_refused<Flux2Config>(config_file(), GetParam());
}

constexpr ErrorCode kMissing = ErrorCode::not_found;
constexpr ErrorCode kWrong = ErrorCode::incompatible;

INSTANTIATE_TEST_SUITE_P(
    All, Flux2ConfigRefusal,
    testing::Values(
        ConfigRefusal{"PatchSize", R"({"patch_size": 2})", kWrong, "patch_size", "2"},
        ConfigRefusal{"NoInChannels", R"({"in_channels": null})", kMissing, "in_channels", ""},
        ConfigRefusal{"NoLayers", R"({"num_layers": null})", kMissing, "num_layers", ""},
        ConfigRefusal{"ZeroLayers", R"({"num_layers": 0})", kWrong, "num_layers", "0"},
        ConfigRefusal{"NoSingleLayers", R"({"num_single_layers": null})", kMissing, "num_single_layers", ""},
        ConfigRefusal{"HeadsAsText", R"({"num_attention_heads": "5"})", kWrong, "num_attention_heads", "5"},
        ConfigRefusal{"NegativeHeads", R"({"num_attention_heads": -5})", kWrong, "num_attention_heads", "-5"},
        ConfigRefusal{"NoHeadDim", R"({"attention_head_dim": null})", kMissing, "attention_head_dim", ""},
        ConfigRefusal{"NoTextChannels", R"({"joint_attention_dim": null})", kMissing, "joint_attention_dim", ""},
        ConfigRefusal{"OutChannels", R"({"out_channels": 0})", kWrong, "out_channels", "0"},
        ConfigRefusal{"OddSinusoid", R"({"timestep_guidance_channels": 255})", kWrong, "timestep_guidance_channels",
                      "255 is odd"},
        ConfigRefusal{"NoMlpRatio", R"({"mlp_ratio": null})", kMissing, "mlp_ratio", ""},
        ConfigRefusal{"NegativeMlpRatio", R"({"mlp_ratio": -3})", kWrong, "mlp_ratio", "-3 is not positive"},
        ConfigRefusal{"TinyMlpRatio", R"({"mlp_ratio": 0.001})", kWrong, "mlp_ratio", "width of 0.16"},
        ConfigRefusal{"HugeMlpRatio", R"({"mlp_ratio": 1e300})", kWrong, "mlp_ratio", "width of 1.6e+302"},
        ConfigRefusal{"AxesSum", R"({"axes_dims_rope": [8, 8, 8, 16]})", kWrong, "axes_dims_rope",
                      "the sum is 40, attention_head_dim is 32"},
        ConfigRefusal{"OddAxis", R"({"axes_dims_rope": [7, 9, 8, 8]})", kWrong, "axes_dims_rope", "7 is odd"},
        ConfigRefusal{"ThreeAxes", R"({"axes_dims_rope": [8, 8, 16]})", kWrong, "axes_dims_rope", "3 axes"},
        ConfigRefusal{"RopeTheta", R"({"rope_theta": 0})", kWrong, "rope_theta", "0 is not positive"},
        ConfigRefusal{"Epsilon", R"({"eps": -1e-6})", kWrong, "eps", "is not positive"},
        ConfigRefusal{"GuidanceAsNumber", R"({"guidance_embeds": 1})", kWrong, "guidance_embeds", "1"}),
    test::refusal_name);

}  // namespace
}  // namespace lamina
