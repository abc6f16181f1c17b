#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/flux2/flux2_forward.h"
#include "models/flux2/flux2_inputs.h"
#include "pipelines/flux2/flux2_job.h"
#include "pipelines/host_transfer.h"

namespace lamina {

/// All denoising steps of one request: a pass is a step, and both guidance branches share each visit of a unit.
class DenoiseStage final : public Stage, private PassMember {
 public:
  DenoiseStage(const Flux2Model& model, Flux2Job& job) : model_(model), job_(job) {}

  const std::string& name() const override { return name_; }
  std::size_t part() const override { return model_.index_of(Flux2Model::kTransformer); }
  void lay_out(Arena& arena) override;
  void upload(StagingUploader& uploader) override;
  std::size_t passes() const override { return static_cast<std::size_t>(job_.steps); }
  std::vector<PassMember*> members() override { return {this}; }
  std::size_t result_bytes() const override;
  void download(Stream& stream) override;
  void collect() override;

 private:
  void begin(ops::OpContext& context) override;
  void run_unit(std::size_t unit, ops::OpContext& context) override;
  void finish(ops::OpContext& context) override;
  /// Takes the latents from one noise level to the next.
  void step(ops::OpContext& context, const TensorView& velocity) const;

  std::int64_t latent_tokens() const { return job_.grid.tokens(); }
  /// The rows of `tokens_` that are denoised; those of reference pictures stay behind them.
  TensorView latents() const { return tokens_.slice(0, 0, latent_tokens()); }
  std::vector<Flux2Position> positions() const;

  const std::string name_ = "denoise";
  const Flux2Model& model_;
  Flux2Job& job_;
  std::int64_t step_ = 0;
  TensorView tokens_;        ///< [latent and reference tokens, channels]
  TensorView model_tokens_;  ///< the same as the transformer reads them: a copy, unless activations are f32
  TensorView cos_;
  TensorView sin_;
  TensorView timesteps_;                  ///< [steps, timestep channels]
  std::optional<TensorView> step_noise_;  ///< [steps x latent tokens, channels] f32
  std::vector<TensorView> texts_;         ///< per branch
  std::optional<Flux2Modulation> modulation_;
  std::vector<Flux2Forward> branches_;
  FloatDownload download_;                      ///< the last latents
  std::optional<FloatDownload> step_download_;  ///< those of every step, where they are kept
};

}  // namespace lamina
