#include "pipelines/flux2/denoise_stage.h"

#include <span>

#include "ops/elementwise.h"

namespace lamina {
namespace {

/// A transformer's timesteps are the scheduler's divided by this, however many those count.
constexpr float kTimestepScale = 1000.0F;

std::int64_t text_tokens() {
  return static_cast<std::int64_t>(kPromptLength);
}

}  // namespace

void DenoiseStage::lay_out(Arena& arena) {
  const Flux2Config& config = model_.transformer().config();
  const std::int64_t image_tokens = latent_tokens() + job_.reference_tokens();
  const std::int64_t all_tokens = text_tokens() + image_tokens;
  step_ = 0;
  step_download_.reset();
  texts_.clear();
  branches_.clear();
  const DType activations_dtype = model_.activations();
  tokens_ = arena.take(DType::f32, {image_tokens, config.in_channels});
  model_tokens_ = activations_dtype == DType::f32 ? tokens_ : arena.take(activations_dtype, tokens_.shape());
  cos_ = arena.take(DType::f32, {all_tokens, config.head_dim / 2});
  sin_ = arena.take(DType::f32, {all_tokens, config.head_dim / 2});
  timesteps_ = arena.take(activations_dtype, {job_.steps, config.timestep_channels});
  if (job_.schedule.adds_noise)
    step_noise_ = arena.take(DType::f32, {job_.steps * latent_tokens(), config.in_channels});
  modulation_.emplace(config, activations_dtype, arena);
  const Flux2Activations activations(model_.transformer(), all_tokens, activations_dtype, model_.groups(), arena);
  for (std::size_t branch = 0; branch < job_.branches; ++branch) {
    texts_.push_back(arena.take(activations_dtype, {text_tokens(), config.text_channels}));
    branches_.emplace_back(model_.transformer(), Flux2Inputs{texts_.back(), model_tokens_, cos_, sin_, latent_tokens()},
                           *modulation_, activations, arena);
  }
}

void DenoiseStage::upload(StagingUploader& uploader) {
  const Flux2Config& config = model_.transformer().config();
  upload_floats(uploader, job_.noise, latents());
  std::int64_t row = latent_tokens();
  for (const Flux2Reference& reference : job_.references) {
    upload_floats(uploader, reference.tokens, tokens_.slice(0, row, row + reference.grid.tokens()));
    row += reference.grid.tokens();
  }
  const RopeTable rope = flux2_rope_table(config, positions());
  upload_floats(uploader, rope.cos, cos_);
  upload_floats(uploader, rope.sin, sin_);
  for (std::int64_t step = 0; step < job_.steps; ++step)
    upload_floats(uploader,
                  flux2_sinusoid(job_.schedule.timesteps[static_cast<std::size_t>(step)] / kTimestepScale,
                                 config.timestep_channels),
                  timesteps_.slice(0, step, step + 1));
  if (step_noise_) upload_floats(uploader, job_.step_noise, *step_noise_);
  for (std::size_t branch = 0; branch < texts_.size(); ++branch)
    upload_floats(uploader, job_.prompt_embeds[branch], texts_[branch]);
  if (job_.request.keep_tensors)
    step_download_.emplace(uploader.stream().device(), DType::f32, job_.steps * latents().shape().elements());
}

void DenoiseStage::begin(ops::OpContext& context) {
  if (model_tokens_.dtype() != tokens_.dtype()) ops::cast(context, tokens_, model_tokens_);
  modulation_->compute(context, model_.transformer(), timesteps_.slice(0, step_, step_ + 1));
  for (const Flux2Forward& branch : branches_) branch.begin(context);
}

void DenoiseStage::run_unit(std::size_t unit, ops::OpContext& context) {
  for (const Flux2Forward& branch : branches_) branch.run_unit(unit, context);
}

void DenoiseStage::finish(ops::OpContext& context) {
  for (const Flux2Forward& branch : branches_) branch.finish(context);
  const TensorView velocity = branches_.front().velocity();
  if (job_.uses_guidance_branches())
    ops::guide(context, velocity, branches_.back().velocity(), static_cast<float>(job_.guidance_scale), velocity);
  step(context, velocity);
  if (step_download_) step_download_->copy_async(context.stream(), latents(), step_ * latents().shape().elements());
  ++step_;
}

void DenoiseStage::step(ops::OpContext& context, const TensorView& velocity) const {
  const float now = job_.schedule.sigmas[static_cast<std::size_t>(step_)];
  const float next = job_.schedule.sigmas[static_cast<std::size_t>(step_) + 1];
  if (!step_noise_) return ops::euler_step(context, velocity, next - now, latents());
  // To the picture behind the noise, then back to the next level: picture + next * (noise - picture).
  ops::euler_step(context, velocity, -now, latents());
  const TensorView noise = step_noise_->slice(0, step_ * latent_tokens(), (step_ + 1) * latent_tokens());
  ops::guide(context, noise, latents(), next, latents());
}

std::size_t DenoiseStage::result_bytes() const {
  const std::int64_t downloads = job_.request.keep_tensors ? job_.steps + 1 : 1;
  return FloatDownload::host_bytes(DType::f32, downloads * latents().shape().elements());
}

void DenoiseStage::download(Stream& stream) {
  download_ = FloatDownload(stream.device(), DType::f32, latents().shape().elements());
  download_.copy_async(stream, latents());
}

void DenoiseStage::collect() {
  job_.latents = download_.values();
  if (step_download_) job_.step_latents = step_download_->values();
}

std::vector<Flux2Position> DenoiseStage::positions() const {
  std::vector<Flux2Position> positions = flux2_text_positions(text_tokens());
  const auto append = [&](std::int32_t time, const TokenGrid& grid) {
    const std::vector<Flux2Position> rows = flux2_image_positions(time, grid.rows, grid.columns);
    positions.insert(positions.end(), rows.begin(), rows.end());
  };
  append(0, job_.grid);
  for (std::size_t i = 0; i < job_.references.size(); ++i)
    append(flux2_reference_time(static_cast<std::int32_t>(i)), job_.references[i].grid);
  return positions;
}

}  // namespace lamina
