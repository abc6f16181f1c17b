#include "pipelines/flux2/flux2_model.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/config_reader.h"
#include "base/error.h"
#include "base/log.h"
#include "models/flux2/flux2_stored_forms.h"
#include "models/qwen3/qwen3_inputs.h"
#include "weights/coverage.h"

namespace lamina {
namespace {

ConfigReader read_config(const ModelFolder& folder, std::string_view component) {
  return ConfigReader::read(folder.component_path(component) / "config.json");
}

DTypeOf dtypes_of(const Checkpoint& checkpoint) {
  return [&checkpoint](std::string_view name) { return checkpoint.dtype_of(name); };
}

void append_members(const OffloadPlan& plan, std::vector<TensorSpec>& tensors) {
  std::ranges::move(member_tensors(plan), std::back_inserter(tensors));
}

void check_component(const Checkpoint& checkpoint, const WeightDemand& demand) {
  const std::vector<std::string> unused = check_coverage(checkpoint, demand);
  if (!unused.empty())
    spdlog::warn("{}: {} tensors are not used, the first is {}", checkpoint.path().string(), unused.size(),
                 unused.front());
}

}  // namespace

Flux2Model::Flux2Model(const ModelFolder& folder)
    : is_distilled_(folder.is_distilled()),
      tokenizer_(Tokenizer::load(folder.component_path("tokenizer"))),
      scheduler_(FlowMatchScheduler::load(folder.component_path("scheduler"))),
      text_checkpoint_(Checkpoint::open(folder.component_path("text_encoder"), "model")),
      transformer_checkpoint_(Checkpoint::open(folder.component_path("transformer"), "diffusion_pytorch_model")),
      vae_checkpoint_(Checkpoint::open(folder.component_path("vae"), "diffusion_pytorch_model")),
      text_encoder_(Qwen3Config::read(read_config(folder, "text_encoder")), dtypes_of(text_checkpoint_)),
      transformer_config_(Flux2Config::read(read_config(folder, "transformer"))),
      transformer_stored_as_(flux2_stored_forms(transformer_config_, transformer_checkpoint_)),
      transformer_(transformer_config_, stored_dtypes(transformer_checkpoint_, transformer_stored_as_)),
      vae_config_(Flux2VaeConfig::read(read_config(folder, "vae"))),
      vae_decoder_(vae_config_, dtypes_of(vae_checkpoint_)),
      vae_encoder_(vae_config_, dtypes_of(vae_checkpoint_)),
      latent_statistics_(Flux2LatentStatistics::read(vae_config_, vae_checkpoint_)),
      geometry_(vae_config_.spatial_factor(), Flux2VaeConfig::kPatchSide) {
  check_configurations(folder);
  check_tensors();
  // In the order of `Part`.
  parts_.push_back({text_encoder_.plan(), text_encoder_.parameters(), text_checkpoint_});
  parts_.push_back(
      {transformer_.plan(), transformer_.parameters(), transformer_checkpoint_, true, transformer_stored_as_});
  parts_.push_back({vae_decoder_.plan(), vae_decoder_.parameters(), vae_checkpoint_});
  parts_.push_back({vae_encoder_.plan(), vae_encoder_.parameters(), vae_checkpoint_});
}

std::vector<float> Flux2Model::embed(const std::vector<std::int32_t>& ids) const {
  return gather_embeddings(text_checkpoint_.view(text_encoder_.embedding()), ids);
}

void Flux2Model::check_configurations(const ModelFolder& folder) const {
  const Flux2Config& transformer = transformer_.config();
  const ConfigReader config = read_config(folder, "transformer");
  const auto text_channels =
      text_encoder_.config().hidden * static_cast<std::int64_t>(Qwen3Config::kHiddenStates.size());
  if (transformer.text_channels != text_channels)
    config.reject("joint_attention_dim", fmt::format("found {}, but the text encoder gives {} channels",
                                                     transformer.text_channels, text_channels));
  const std::int64_t packed = vae_config_.packed_channels();
  if (transformer.in_channels != packed || transformer.out_channels != packed)
    config.reject("in_channels", fmt::format("found {} in and {} out, but the VAE packs {} channels",
                                             transformer.in_channels, transformer.out_channels, packed));
}

void Flux2Model::check_tensors() const {
  std::vector<TensorSpec> text{text_encoder_.embedding()};
  append_members(text_encoder_.plan(), text);
  check_component(text_checkpoint_, {"text_encoder", std::move(text), text_encoder_.unused_tensors(), {}});

  check_component(transformer_checkpoint_,
                  {"transformer", member_tensors(transformer_.plan()), {}, transformer_stored_as_});

  std::vector<TensorSpec> vae = Flux2LatentStatistics::tensors(vae_config_, dtypes_of(vae_checkpoint_));
  append_members(vae_encoder_.plan(), vae);
  append_members(vae_decoder_.plan(), vae);
  check_component(vae_checkpoint_, {"vae", std::move(vae), {"bn.num_batches_tracked"}, {}});
}

}  // namespace lamina
