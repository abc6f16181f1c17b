#include "pipelines/flux2/flux2_synthesis.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/config_reader.h"
#include "base/error.h"
#include "base/file.h"
#include "pipelines/flux2/flux2_tensors.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kComponents{"transformer", "text_encoder", "vae"};
constexpr std::int64_t kHeadDim = 128;

/// What the published sizes differ in. Source: diffusers, conversion script of FLUX.2; transformers, Qwen3.
struct Size {
  std::string_view name;
  std::int64_t double_blocks;
  std::int64_t single_blocks;
  std::int64_t heads;
  std::int64_t text_channels;
  bool embeds_guidance;
  std::int64_t text_hidden;  ///< of Qwen3; 0 where the text encoder is another model
  std::int64_t text_intermediate;
};

constexpr std::array<Size, 3> kSizes{{{"klein-4b", 5, 20, 24, 7680, false, 2560, 9728},
                                      {"klein-9b", 8, 24, 32, 12288, false, 4096, 12288},
                                      {"dev", 8, 48, 48, 15360, true, 0, 0}}};

Json transformer_config(const Size& size) {
  return {{"_class_name", "Flux2Transformer2DModel"},
          {"attention_head_dim", kHeadDim},
          {"axes_dims_rope", {32, 32, 32, 32}},
          {"eps", 1e-6},
          {"guidance_embeds", size.embeds_guidance},
          {"in_channels", 128},
          {"joint_attention_dim", size.text_channels},
          {"mlp_ratio", 3.0},
          {"num_attention_heads", size.heads},
          {"num_layers", size.double_blocks},
          {"num_single_layers", size.single_blocks},
          {"out_channels", nullptr},
          {"patch_size", 1},
          {"rope_theta", 2000},
          {"timestep_guidance_channels", 256}};
}

/// The checkpoint holds the layers that are read.
Json text_encoder_config(const Size& size) {
  return {{"architectures", {"Qwen3ForCausalLM"}},
          {"attention_bias", false},
          {"dtype", "bfloat16"},
          {"head_dim", kHeadDim},
          {"hidden_act", "silu"},
          {"hidden_size", size.text_hidden},
          {"intermediate_size", size.text_intermediate},
          {"max_position_embeddings", 40960},
          {"model_type", "qwen3"},
          {"num_attention_heads", 32},
          {"num_hidden_layers", 36},
          {"num_key_value_heads", 8},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 1000000},
          {"tie_word_embeddings", true},
          {"vocab_size", 151936}};
}

Json vae_config() {
  return {{"_class_name", "AutoencoderKLFlux2"},
          {"act_fn", "silu"},
          {"batch_norm_eps", 1e-4},
          {"block_out_channels", {128, 256, 512, 512}},
          {"decoder_block_out_channels", nullptr},
          {"in_channels", 3},
          {"latent_channels", 32},
          {"layers_per_block", 2},
          {"mid_block_add_attention", true},
          {"norm_num_groups", 32},
          {"out_channels", 3},
          {"patch_size", {2, 2}},
          {"sample_size", 1024},
          {"use_post_quant_conv", true},
          {"use_quant_conv", true}};
}

Json scheduler_config() {
  return {{"_class_name", "FlowMatchEulerDiscreteScheduler"},
          {"base_image_seq_len", 256},
          {"base_shift", 0.5},
          {"invert_sigmas", false},
          {"max_image_seq_len", 4096},
          {"max_shift", 1.15},
          {"num_train_timesteps", 1000},
          {"shift", 3.0},
          {"shift_terminal", nullptr},
          {"stochastic_sampling", false},
          {"time_shift_type", "exponential"},
          {"use_beta_sigmas", false},
          {"use_dynamic_shifting", true},
          {"use_exponential_sigmas", false},
          {"use_karras_sigmas", false}};
}

Json published_config(const Size& size, std::string_view component) {
  if (component == "transformer") return transformer_config(size);
  if (component == "vae") return vae_config();
  if (size.text_hidden == 0)
    fail(ErrorCode::not_implemented, "{} has a text encoder other than Qwen3; its components here are {}", size.name,
         "transformer and vae");
  return text_encoder_config(size);
}

/// The component's configuration in the model folder that the given transformer's configuration stands in.
ConfigReader config_of_file(const fs::path& transformer, std::string_view component) {
  if (component == "transformer") return ConfigReader::read(transformer);
  const fs::path file = fs::absolute(transformer).parent_path().parent_path() / component / "config.json";
  if (!is_there(file))
    fail(ErrorCode::not_found, "component '{}': {} does not exist beside the transformer's configuration", component,
         file.string());
  return ConfigReader::read(file);
}

ConfigReader config_of(const std::string& size, std::string_view component) {
  const auto published = std::ranges::find(kSizes, size, &Size::name);
  if (published != kSizes.end())
    return {published_config(*published, component), fmt::format("size {}, component {}", size, component)};
  if (!is_there(size))
    fail(ErrorCode::invalid_argument,
         "size '{}': klein-4b, klein-9b, dev or the path of a transformer's config.json is expected", size);
  return config_of_file(size, component);
}

SynthesisComponent make_component(std::string_view name, const ConfigReader& config) {
  const DTypeOf dtype_of = [](std::string_view) { return DType::bf16; };
  if (name == "transformer")
    return {{"transformer", "diffusers", "Flux2Transformer2DModel"},
            "diffusion_pytorch_model",
            config.json(),
            checkpoint_tensors(Flux2Transformer(Flux2Config::read(config), dtype_of))};
  if (name == "text_encoder")
    return {{"text_encoder", "transformers", "Qwen3ForCausalLM"},
            "model",
            config.json(),
            checkpoint_tensors(Qwen3TextEncoder(Qwen3Config::read(config), dtype_of))};
  const Flux2VaeConfig vae = Flux2VaeConfig::read(config);
  return {{"vae", "diffusers", "AutoencoderKLFlux2"},
          "diffusion_pytorch_model",
          config.json(),
          checkpoint_tensors(vae, Flux2VaeEncoder(vae, dtype_of), Flux2VaeDecoder(vae, dtype_of), dtype_of)};
}

/// In the order of `kComponents`, each once.
std::vector<std::string_view> chosen_components(const std::vector<std::string>& asked) {
  const auto is_asked = [&](std::string_view name) { return std::ranges::find(asked, name) != asked.end(); };
  for (const std::string& name : asked)
    if (name != "all" && std::ranges::find(kComponents, name) == kComponents.end())
      fail(ErrorCode::invalid_argument, "component '{}': transformer, text_encoder, vae or all is expected", name);
  std::vector<std::string_view> chosen;
  for (const std::string_view name : kComponents)
    if (is_asked("all") || is_asked(name)) chosen.push_back(name);
  if (chosen.empty()) fail(ErrorCode::invalid_argument, "no component is named");
  return chosen;
}

}  // namespace

SynthesisPlan plan_flux2_synthesis(const SynthesisRequest& request) {
  SynthesisPlan plan;
  for (const std::string_view name : chosen_components(request.components))
    plan.components.push_back(make_component(name, config_of(request.size, name)));
  // The distilled kind is the one that is published most.
  plan.index = {{"_class_name", "Flux2KleinPipeline"}, {"is_distilled", true}};
  plan.scheduler_class = "FlowMatchEulerDiscreteScheduler";
  plan.scheduler_config = scheduler_config();
  return plan;
}

}  // namespace lamina
