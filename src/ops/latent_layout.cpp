#include "ops/latent_layout.h"

#include "base/error.h"
#include "ops/cpu_ops.h"
#include "ops/cuda_ops.h"
#include "ops/validate.h"

namespace lamina::ops {

namespace {

/// Checks everything but whether the pixels are contiguous.
void check(std::string_view operation, const OpContext& context, const ConstTensorView& tokens,
           const LatentNormalisation& normalisation, const ConstTensorView& pixels) {
  const Operand image(operation, "pixels", pixels);
  image.activation(context).rank(3).rows();
  expects(pixels.size(0) % 2 == 0 && pixels.size(1) % 2 == 0, "{}: pixels {} do not form 2x2 patches", operation,
          to_string(pixels.shape()));
  const std::int64_t packed = 4 * pixels.size(2);
  Operand(operation, "tokens", tokens)
      .f32()
      .shape({pixels.size(0) / 2 * (pixels.size(1) / 2), packed})
      .contiguous()
      .apart_from(image);
  Operand(operation, "mean", normalisation.mean).f32().shape({packed}).contiguous();
  Operand(operation, "deviation", normalisation.deviation).f32().shape({packed}).contiguous();
}

}  // namespace

void unpack_latents(OpContext& context, const ConstTensorView& tokens, const LatentNormalisation& normalisation,
                    const TensorView& pixels) {
  check("unpack_latents", context, tokens, normalisation, pixels);
  Operand("unpack_latents", "pixels", pixels).contiguous();

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::unpack_latents(context, tokens, normalisation, pixels);
    case DeviceKind::cuda: return cuda::unpack_latents(context, tokens, normalisation, pixels);
  }
}

void pack_latents(OpContext& context, const ConstTensorView& pixels, const LatentNormalisation& normalisation,
                  const TensorView& tokens) {
  check("pack_latents", context, tokens, normalisation, pixels);

  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::pack_latents(context, pixels, normalisation, tokens);
    case DeviceKind::cuda: return cuda::pack_latents(context, pixels, normalisation, tokens);
  }
}

}  // namespace lamina::ops
