#include "ops/cuda_ops.h"
#include "ops/validate.h"

// In place of the *_cuda files, in a build without CUDA.
namespace lamina::ops::cuda {

void linear(OpContext& context, const ConstTensorView&, const ConstTensorView&, const TensorView&,
            const std::optional<ConstTensorView>&) {
  refuse_device("linear", context);
}

void attention(OpContext& context, const ConstTensorView&, const ConstTensorView&, const ConstTensorView&,
               const TensorView&, const AttentionOptions&) {
  refuse_device("attention", context);
}

void layer_norm_modulate(OpContext& context, const ConstTensorView&, const ConstTensorView&, const ConstTensorView&,
                         float, const TensorView&) {
  refuse_device("layer_norm_modulate", context);
}

void gated_add_norm_modulate(OpContext& context, const ConstTensorView&, const ConstTensorView&, const TensorView&,
                             const Modulation&, const TensorView&) {
  refuse_device("gated_add_norm_modulate", context);
}

void rms_norm(OpContext& context, const ConstTensorView&, const ConstTensorView&, float, const TensorView&) {
  refuse_device("rms_norm", context);
}

void qk_norm_rope(OpContext& context, const TensorView&, const TensorView&, const QkNorm&, const Rotation&) {
  refuse_device("qk_norm_rope", context);
}

void silu(OpContext& context, const ConstTensorView&, const TensorView&) {
  refuse_device("silu", context);
}

void silu_mul(OpContext& context, const ConstTensorView&, const ConstTensorView&, const TensorView&) {
  refuse_device("silu_mul", context);
}

void add(OpContext& context, const ConstTensorView&, const TensorView&) {
  refuse_device("add", context);
}

void gated_add(OpContext& context, const ConstTensorView&, const ConstTensorView&, const TensorView&) {
  refuse_device("gated_add", context);
}

void cast(OpContext& context, const ConstTensorView&, const TensorView&) {
  refuse_device("cast", context);
}

void guide(OpContext& context, const ConstTensorView&, const ConstTensorView&, float, const TensorView&) {
  refuse_device("guide", context);
}

void euler_step(OpContext& context, const ConstTensorView&, float, const TensorView&) {
  refuse_device("euler_step", context);
}

void copy(OpContext& context, const ConstTensorView&, const TensorView&) {
  refuse_device("copy", context);
}

void conv2d(OpContext& context, const ConstTensorView&, const ConstTensorView&, const ConstTensorView&,
            const Conv2dOptions&, const TensorView&) {
  refuse_device("conv2d", context);
}

void upsample_nearest_2x(OpContext& context, const ConstTensorView&, const TensorView&) {
  refuse_device("upsample_nearest_2x", context);
}

void channel_moments(OpContext& context, const ConstTensorView&, const TensorView&) {
  refuse_device("channel_moments", context);
}

void group_normalisation(OpContext& context, const ConstTensorView&, std::int64_t, const ConstTensorView&,
                         const ConstTensorView&, const GroupNormOptions&, const TensorView&) {
  refuse_device("group_normalisation", context);
}

void normalise_channels(OpContext& context, const ConstTensorView&, const ConstTensorView&, Activation,
                        const TensorView&) {
  refuse_device("normalise_channels", context);
}

void unpack_latents(OpContext& context, const ConstTensorView&, const LatentNormalisation&, const TensorView&) {
  refuse_device("unpack_latents", context);
}

void pack_latents(OpContext& context, const ConstTensorView&, const LatentNormalisation&, const TensorView&) {
  refuse_device("pack_latents", context);
}

}  // namespace lamina::ops::cuda
