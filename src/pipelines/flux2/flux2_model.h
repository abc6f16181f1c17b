#pragma once

#include <vector>

#include "models/flux2/flux2_transformer.h"
#include "models/flux2_vae/flux2_latent_statistics.h"
#include "models/flux2_vae/flux2_vae_decoder.h"
#include "models/flux2_vae/flux2_vae_encoder.h"
#include "models/qwen3/qwen3_text_encoder.h"
#include "pipelines/flow_match.h"
#include "pipelines/latent_geometry.h"
#include "pipelines/pipeline.h"
#include "pipelines/tokenizer.h"
#include "weights/checkpoint.h"
#include "weights/model_folder.h"

namespace lamina {

/// A FLUX.2 klein checkpoint, opened: configurations read and compared with each other and with the tensors, module
/// trees of placeholders, files mapped. Immutable but for the parameters' bindings; stays where it is.
class Flux2Model {
 public:
  enum Part : std::size_t { kTextEncoder, kTransformer, kVaeDecoder, kVaeEncoder };

  /// Throws not_found, corrupt or incompatible naming file and tensor or field. Tensors nobody reads are warned of.
  explicit Flux2Model(const ModelFolder& folder);
  Flux2Model(const Flux2Model&) = delete;
  Flux2Model& operator=(const Flux2Model&) = delete;

  bool is_distilled() const noexcept { return is_distilled_; }
  const Tokenizer& tokenizer() const noexcept { return tokenizer_; }
  const FlowMatchScheduler& scheduler() const noexcept { return scheduler_; }
  const LatentGeometry& geometry() const noexcept { return geometry_; }
  const Qwen3TextEncoder& text_encoder() const noexcept { return text_encoder_; }
  const Flux2Transformer& transformer() const noexcept { return transformer_; }
  const Flux2VaeConfig& vae_config() const noexcept { return vae_config_; }
  const Flux2VaeDecoder& vae_decoder() const noexcept { return vae_decoder_; }
  const Flux2VaeEncoder& vae_encoder() const noexcept { return vae_encoder_; }
  const Flux2LatentStatistics& latent_statistics() const noexcept { return latent_statistics_; }

  /// Input rows of the text encoder for these tokens: [ids, hidden].
  std::vector<float> embed(const std::vector<std::int32_t>& ids) const;

  const std::vector<ModelPart>& parts() const noexcept { return parts_; }

 private:
  void check_configurations(const ModelFolder& folder) const;
  void check_tensors() const;

  bool is_distilled_;
  Tokenizer tokenizer_;
  FlowMatchScheduler scheduler_;
  Checkpoint text_checkpoint_;
  Checkpoint transformer_checkpoint_;
  Checkpoint vae_checkpoint_;
  Qwen3TextEncoder text_encoder_;
  Flux2Config transformer_config_;
  StoredFormOf transformer_stored_as_;
  Flux2Transformer transformer_;
  Flux2VaeConfig vae_config_;
  Flux2VaeDecoder vae_decoder_;
  Flux2VaeEncoder vae_encoder_;
  Flux2LatentStatistics latent_statistics_;
  LatentGeometry geometry_;
  std::vector<ModelPart> parts_;
};

}  // namespace lamina
