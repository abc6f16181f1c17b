#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "models/flux2/flux2_transformer.h"
#include "models/flux2_vae/flux2_latent_statistics.h"
#include "models/flux2_vae/flux2_vae_decoder.h"
#include "models/flux2_vae/flux2_vae_encoder.h"
#include "models/model_groups.h"
#include "models/qwen3/qwen3_text_encoder.h"
#include "pipelines/flow_match.h"
#include "pipelines/latent_geometry.h"
#include "pipelines/pipeline.h"
#include "pipelines/tokenizer.h"
#include "weights/checkpoint.h"
#include "weights/model_folder.h"

namespace lamina {

/// A FLUX.2 klein checkpoint, opened: configurations read and compared with each other and with the tensors, module
/// trees of placeholders, files mapped. Text encoder, tokenizer and VAE may be missing where the index does not name
/// them; whoever asks for one that is missing gets not_found naming model and component. Immutable but for the
/// parameters' bindings; stays where it is.
class Flux2Model {
 public:
  enum Part { kTextEncoder, kTransformer, kVaeDecoder, kVaeEncoder };

  /// Throws not_found, corrupt or incompatible naming file and tensor or field, and incompatible where the groups of
  /// `options` cannot divide transformer or text encoder. Tensors nobody reads are warned of.
  Flux2Model(const ModelFolder& folder, const PipelineOptions& options);
  Flux2Model(const Flux2Model&) = delete;
  Flux2Model& operator=(const Flux2Model&) = delete;

  bool is_distilled() const noexcept { return is_distilled_; }
  /// Dtype of the activations on the device.
  DType activations() const noexcept { return activations_; }
  /// Dtype in which most of the transformer's weights are kept.
  DType weights_dtype() const;
  VaeTiling vae_tiling() const noexcept { return vae_tiling_; }
  const std::vector<Lora>& loras() const noexcept { return loras_; }
  const Tokenizer& tokenizer() const;
  const FlowMatchScheduler& scheduler() const noexcept { return scheduler_; }
  /// That of the VAE, or without one, that of all published FLUX.2 models; likewise for the side of pictures in pixels.
  const LatentGeometry& geometry() const noexcept { return geometry_; }
  std::int64_t standard_side() const noexcept { return vae_ ? vae_->config.sample_size : kStandardSide; }
  const Qwen3TextEncoder& text_encoder() const { return text().encoder; }
  const Flux2Transformer& transformer() const noexcept { return transformer_; }
  const Flux2VaeConfig& vae_config() const { return vae().config; }
  const Flux2VaeDecoder& vae_decoder() const { return vae().decoder; }
  const Flux2VaeEncoder& vae_encoder() const { return vae().encoder; }
  const Flux2LatentStatistics& latent_statistics() const { return vae().statistics; }

  /// The ranks that compute with this one, and those of them that divide the text encoder; null: it is whole.
  const ModelGroups& groups() const noexcept { return groups_; }
  Communicator* text_encoder_group() const noexcept { return text_encoder_group_; }

  /// Input rows of the text encoder for these tokens: [ids, hidden].
  std::vector<float> embed(const std::vector<std::int32_t>& ids) const;

  /// Those that the model has, in the order of `Part`.
  const std::vector<ModelPart>& parts() const noexcept { return parts_; }
  /// Where a part stands among them; throws internal for one that is missing.
  std::size_t index_of(Part part) const;

 private:
  struct Text {
    Text(const ModelFolder& folder, const PipelineOptions& options);
    Checkpoint checkpoint;
    Qwen3TextEncoder encoder;
    std::optional<Tokenizer> tokenizer;
  };
  struct Vae {
    Vae(const ModelFolder& folder, const std::string& variant);
    Checkpoint checkpoint;
    Flux2VaeConfig config;
    Flux2VaeDecoder decoder;
    Flux2VaeEncoder encoder;
    Flux2LatentStatistics statistics;
  };

  static constexpr std::int64_t kStandardSide = 1024;

  const Text& text() const;
  const Vae& vae() const;
  [[noreturn]] void fail_missing(std::string_view component, std::string_view what_for) const;
  void check_configurations(const ModelFolder& folder) const;
  void check_tensors() const;
  void add_part(Part part, const ModelPart& entry);

  std::filesystem::path path_;
  bool is_distilled_;
  bool opens_text_encoder_;
  DType activations_;
  VaeTiling vae_tiling_;
  std::vector<Lora> loras_;
  ModelGroups groups_;
  Communicator* text_encoder_group_;
  FlowMatchScheduler scheduler_;
  Checkpoint transformer_checkpoint_;
  Flux2Config transformer_config_;
  StoredFormOf transformer_stored_as_;
  Flux2Transformer transformer_;
  std::optional<Text> text_;
  std::optional<Vae> vae_;
  LatentGeometry geometry_ = LatentGeometry::without_vae();
  std::vector<ModelPart> parts_;
  std::map<Part, std::size_t> part_indices_;
};

}  // namespace lamina
