#include "pipelines/flux2/decode_stage.h"

namespace lamina {

DecodeStage::DecodeStage(const Flux2Model& model, Flux2Job& job)
    : model_(model), job_(job), division_(model.vae_tiling()) {}

void DecodeStage::lay_out(Arena& arena) {
  const Flux2VaeConfig& config = model_.vae_config();
  const std::int64_t factor = config.spatial_factor();
  arena_ = &arena;
  tokens_ = arena.take(DType::f32, {job_.grid.tokens(), config.packed_channels()});
  mean_ = arena.take(DType::f32, {config.packed_channels()});
  deviation_ = arena.take(DType::f32, {config.packed_channels()});
  pixels_ = arena.take(model_.activations(), {job_.height / factor, job_.width / factor, config.latent_channels});
  image_ = arena.take(model_.activations(), {job_.height, job_.width, Flux2VaeConfig::kImageChannels});
}

void DecodeStage::upload(StagingUploader& uploader) {
  upload_floats(uploader, job_.latents, tokens_);
  upload_floats(uploader, model_.latent_statistics().mean, mean_);
  upload_floats(uploader, model_.latent_statistics().deviation, deviation_);
}

void DecodeStage::run_outside(ops::OpContext& context) {
  ops::unpack_latents(context, tokens_, {mean_, deviation_}, pixels_);
  map_bytes_ = model_.vae_decoder().decode(context, *arena_, pixels_, image_, division_.options());
}

std::size_t DecodeStage::result_bytes() const {
  return FloatDownload::host_bytes(image_.dtype(), image_.shape().elements()) + map_bytes_;
}

void DecodeStage::download(Stream& stream) {
  download_ = FloatDownload(stream.device(), image_.dtype(), image_.shape().elements());
  download_.copy_async(stream, image_);
}

}  // namespace lamina
