#include "pipelines/flux2/flux2_model.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/config_reader.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "models/flux2/flux2_loras.h"
#include "models/flux2/flux2_stored_forms.h"
#include "models/qwen3/qwen3_inputs.h"
#include "pipelines/chat_template.h"
#include "pipelines/flux2/flux2_ranks.h"
#include "pipelines/flux2/flux2_tensors.h"
#include "weights/coverage.h"
#include "weights/safetensors.h"
#include "weights/stated_dtype.h"

namespace lamina {
namespace {

ConfigReader read_config(const ModelFolder& folder, std::string_view component) {
  return ConfigReader::read(folder.component_path(component) / "config.json");
}

DTypeOf dtypes_of(const Checkpoint& checkpoint) {
  return [&checkpoint](std::string_view name) { return checkpoint.weight_dtype_of(name); };
}

/// transformers writes a Qwen3Model without the prefix that its Qwen3ForCausalLM has.
Qwen3TextEncoder read_encoder(const ConfigReader& file, const Checkpoint& checkpoint, const Communicator* group) {
  Qwen3Config config = Qwen3Config::read(file);
  if (checkpoint.find("embed_tokens.weight") != nullptr) config.prefix = "";
  return {config, dtypes_of(checkpoint), text_encoder_part(file, config, group)};
}

/// The ranks that divide the text encoder; null: it is whole.
Communicator* text_encoder_group_of(const PipelineOptions& options) {
  return options.text_encoder_tensor_parallel ? options.groups.tensor : nullptr;
}

/// The klein pipeline gives a transformer no guidance, not even one with an embedder for it: it runs two branches.
Flux2Config read_klein_config(const ConfigReader& file) {
  Flux2Config config = Flux2Config::read(file);
  config.has_guidance = false;
  return config;
}

std::size_t degree_of(const TensorParallel& part) {
  return static_cast<std::size_t>(part.degree);
}

Checkpoint open_transformer(const ModelFolder& folder, const PipelineOptions& options) {
  if (!options.transformer_file.empty()) return Checkpoint::open_file(options.transformer_file);
  return Checkpoint::open(folder.component_path("transformer"), "diffusion_pytorch_model", options.variant);
}

std::vector<LoraFile> read_loras(const std::vector<Lora>& loras) {
  std::vector<LoraFile> files;
  for (const Lora& lora : loras) files.push_back(LoraFile::read(lora.file, lora.scale));
  return files;
}

/// A tensor of a block that nothing reads belongs to a block that the configuration leaves out, or to blocks of another
/// kind; without it the picture would be another one.
void refuse_unread_blocks(const Checkpoint& checkpoint, const std::vector<BlockList>& lists,
                          const std::vector<std::string>& unused) {
  for (const std::string& tensor : unused)
    for (const BlockList& list : lists)
      if (tensor.starts_with(list.name + "."))
        fail(ErrorCode::incompatible,
             "{}: tensor {} belongs to a block, and the model that config.json describes has no use for it",
             checkpoint.path().string(), excerpt(tensor));
}

void check_component(const Checkpoint& checkpoint, const std::vector<BlockList>& lists, const WeightDemand& demand) {
  const std::vector<std::string> unused = check_coverage(checkpoint, demand);
  if (unused.empty()) return;
  refuse_unread_blocks(checkpoint, lists, unused);
  spdlog::warn("{}: {} not used, the first is {}", checkpoint.path().string(),
               unused.size() == 1 ? "1 tensor is" : fmt::format("{} tensors are", unused.size()),
               excerpt(unused.front()));
}

void warn_of_dtype(const ModelFolder& folder, std::string_view component, const Checkpoint& checkpoint) {
  if (const auto text = dtype_disagreement(read_config(folder, component), checkpoint)) spdlog::warn(*text);
}

}  // namespace

Flux2Model::Text::Text(const ModelFolder& folder, const PipelineOptions& options)
    : checkpoint(Checkpoint::open(folder.component_path("text_encoder"), "model", options.variant)),
      encoder(read_encoder(read_config(folder, "text_encoder"), checkpoint, text_encoder_group_of(options))) {
  if (folder.find("tokenizer") == nullptr) return;
  tokenizer = Tokenizer::load(folder.component_path("tokenizer"));
  check_chat_template(folder.component_path("tokenizer"));
}

Flux2Model::Vae::Vae(const ModelFolder& folder, const std::string& variant)
    : checkpoint(Checkpoint::open(folder.component_path("vae"), "diffusion_pytorch_model", variant)),
      config(Flux2VaeConfig::read(read_config(folder, "vae"))),
      decoder(config, dtypes_of(checkpoint)),
      encoder(config, dtypes_of(checkpoint)),
      statistics(Flux2LatentStatistics::read(config, checkpoint)) {}

Flux2Model::Flux2Model(const ModelFolder& folder, const PipelineOptions& options)
    : path_(folder.path()),
      is_distilled_(folder.is_distilled()),
      opens_text_encoder_(options.text_encoder),
      activations_(options.activations),
      vae_tiling_(options.vae_tiling),
      loras_(options.loras),
      groups_(options.groups),
      text_encoder_group_(text_encoder_group_of(options)),
      scheduler_(FlowMatchScheduler::load(folder.component_path("scheduler"))),
      transformer_checkpoint_(open_transformer(folder, options)),
      transformer_config_(read_klein_config(read_config(folder, "transformer"))),
      transformer_stored_as_(flux2_stored_forms(transformer_config_, transformer_checkpoint_)),
      transformer_(transformer_config_, flux2_dtypes(transformer_checkpoint_, transformer_stored_as_),
                   transformer_part(read_config(folder, "transformer"), transformer_config_, groups_)) {
  if (opens_text_encoder_ && folder.find("text_encoder") != nullptr) text_.emplace(folder, options);
  if (folder.find("vae") != nullptr) {
    vae_.emplace(folder, options.variant);
    geometry_ = LatentGeometry(vae_->config.spatial_factor(), Flux2VaeConfig::kPatchSide);
  }
  transformer_stored_as_ =
      with_loras(std::move(transformer_stored_as_), read_loras(loras_), checkpoint_tensors(transformer_));
  check_configurations(folder);
  warn_of_dtype(folder, "transformer", transformer_checkpoint_);
  if (text_) warn_of_dtype(folder, "text_encoder", text_->checkpoint);
  if (vae_) warn_of_dtype(folder, "vae", vae_->checkpoint);
  check_tensors();
  if (text_)
    add_part(kTextEncoder, {.plan = text_->encoder.plan(),
                            .parameters = text_->encoder.parameters(),
                            .checkpoint = text_->checkpoint,
                            .tensor_parallel_size = degree_of(text_->encoder.tensor_parallel())});
  add_part(kTransformer, {.plan = transformer_.plan(),
                          .parameters = transformer_.parameters(),
                          .checkpoint = transformer_checkpoint_,
                          .is_transformer = true,
                          .tensor_parallel_size = degree_of(transformer_.tensor_parallel()),
                          .stored_as = transformer_stored_as_});
  if (!vae_) return;
  add_part(kVaeDecoder, {vae_->decoder.plan(), vae_->decoder.parameters(), vae_->checkpoint});
  add_part(kVaeEncoder, {vae_->encoder.plan(), vae_->encoder.parameters(), vae_->checkpoint});
}

void Flux2Model::add_part(Part part, const ModelPart& entry) {
  part_indices_.emplace(part, parts_.size());
  parts_.push_back(entry);
  parts_.back().load_hooks.push_back(finite_vectors(member_tensors(entry.plan)));
}

std::size_t Flux2Model::index_of(Part part) const {
  const auto index = part_indices_.find(part);
  expects(index != part_indices_.end(), "{}: part {} is not there", path_.string(), static_cast<int>(part));
  return index->second;
}

void Flux2Model::fail_missing(std::string_view component, std::string_view what_for) const {
  fail(ErrorCode::not_found, "{}: the model has no component '{}', which {}", path_.string(), component, what_for);
}

DType Flux2Model::weights_dtype() const {
  std::map<DType, std::int64_t> elements;
  for (const TensorSpec& tensor : checkpoint_tensors(transformer_)) elements[tensor.dtype] += tensor.shape.elements();
  return std::ranges::max_element(elements, {}, [](const auto& entry) { return entry.second; })->first;
}

const Flux2Model::Text& Flux2Model::text() const {
  if (!text_ && !opens_text_encoder_)
    fail(ErrorCode::invalid_argument, "{}: the text encoder is not loaded; prompt embeddings are expected",
         path_.string());
  if (!text_) fail_missing("text_encoder", "a prompt needs; prompt embeddings can be given instead");
  return *text_;
}

const Tokenizer& Flux2Model::tokenizer() const {
  if (!text().tokenizer) fail_missing("tokenizer", "a prompt needs; prompt embeddings can be given instead");
  return *text().tokenizer;
}

const Flux2Model::Vae& Flux2Model::vae() const {
  if (!vae_) fail_missing("vae", "makes a picture of latents");
  return *vae_;
}

std::vector<float> Flux2Model::embed(const std::vector<std::int32_t>& ids) const {
  const Checkpoint::Location stored = text().checkpoint.locate(text_encoder().embedding().name);
  return gather_embeddings(stored.file->view(*stored.tensor), ids);  // bound to its shape when the model was opened
}

void Flux2Model::check_configurations(const ModelFolder& folder) const {
  const Flux2Config& transformer = transformer_.config();
  const ConfigReader config = read_config(folder, "transformer");
  if (text_) {
    const auto text_channels =
        text_->encoder.config().hidden * static_cast<std::int64_t>(Qwen3Config::kHiddenStates.size());
    if (transformer.text_channels != text_channels)
      config.reject("joint_attention_dim", fmt::format("found {}, but the text encoder gives {} channels",
                                                       transformer.text_channels, text_channels));
    const std::int64_t vocabulary = text_->encoder.config().vocabulary;
    if (text_->tokenizer && text_->tokenizer->id_count() > vocabulary)
      read_config(folder, "text_encoder")
          .reject("vocab_size",
                  fmt::format("found {}, but the tokenizer has {} ids", vocabulary, text_->tokenizer->id_count()));
  }
  if (!vae_) {
    if (transformer.out_channels != transformer.in_channels)
      config.reject("out_channels",
                    fmt::format("found {}, but in_channels is {}, and a step adds what comes out to what went in",
                                transformer.out_channels, transformer.in_channels));
    return;
  }
  const std::int64_t packed = vae_->config.packed_channels();
  if (transformer.in_channels != packed || transformer.out_channels != packed)
    config.reject("in_channels", fmt::format("found {} in and {} out, but the VAE packs {} channels",
                                             transformer.in_channels, transformer.out_channels, packed));
}

void Flux2Model::check_tensors() const {
  if (text_)
    check_component(text_->checkpoint, text_->encoder.plan().lists,
                    {"text_encoder", checkpoint_tensors(text_->encoder), text_->encoder.unused_tensors(), {}});
  check_component(transformer_checkpoint_, transformer_.plan().lists,
                  {"transformer",
                   checkpoint_tensors(transformer_),
                   {"time_guidance_embed.guidance_embedder."},
                   transformer_stored_as_});
  if (!vae_) return;
  const std::vector<std::string> known_unused{"bn.num_batches_tracked"};
  check_component(vae_->checkpoint, {},
                  {"vae",
                   checkpoint_tensors(vae_->config, vae_->encoder, vae_->decoder, dtypes_of(vae_->checkpoint)),
                   known_unused,
                   {}});
}

}  // namespace lamina
