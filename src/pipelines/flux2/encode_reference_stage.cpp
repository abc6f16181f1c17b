#include "pipelines/flux2/encode_reference_stage.h"

namespace lamina {

EncodeReferenceStage::EncodeReferenceStage(const Flux2Model& model, Flux2Reference& reference)
    : model_(model), reference_(reference), division_(model.vae_tiling()) {}

void EncodeReferenceStage::lay_out(Arena& arena) {
  const Flux2VaeConfig& config = model_.vae_config();
  const std::int64_t factor = config.spatial_factor();
  const ReferenceImage& image = reference_.image;
  arena_ = &arena;
  image_ = arena.take(model_.activations(), {image.height, image.width, Flux2VaeConfig::kImageChannels});
  pixels_ = arena.take(model_.activations(), {image.height / factor, image.width / factor, config.latent_channels});
  mean_ = arena.take(DType::f32, {config.packed_channels()});
  deviation_ = arena.take(DType::f32, {config.packed_channels()});
  tokens_ = arena.take(DType::f32, {reference_.grid.tokens(), config.packed_channels()});
}

void EncodeReferenceStage::upload(StagingUploader& uploader) {
  upload_floats(uploader, reference_.image.values, image_);
  upload_floats(uploader, model_.latent_statistics().mean, mean_);
  upload_floats(uploader, model_.latent_statistics().deviation, deviation_);
}

void EncodeReferenceStage::run_outside(ops::OpContext& context) {
  map_bytes_ = model_.vae_encoder().encode(context, *arena_, image_, pixels_, division_.options());
  ops::pack_latents(context, pixels_, {mean_, deviation_}, tokens_);
}

std::size_t EncodeReferenceStage::result_bytes() const {
  return FloatDownload::host_bytes(tokens_.dtype(), tokens_.shape().elements()) + map_bytes_;
}

void EncodeReferenceStage::download(Stream& stream) {
  download_ = FloatDownload(stream.device(), tokens_.dtype(), tokens_.shape().elements());
  download_.copy_async(stream, tokens_);
}

}  // namespace lamina
