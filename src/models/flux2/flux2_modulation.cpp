#include "models/flux2/flux2_modulation.h"

#include "base/error.h"
#include "ops/elementwise.h"
#include "ops/linear.h"

namespace lamina {
namespace {

ConstTensorView as_row(const ConstTensorView& vector) {
  return vector.reshape({1, vector.shape().elements()});
}

}  // namespace

Flux2Modulation::Flux2Modulation(const Flux2Config& config, DType dtype, Arena& arena) : width_(config.width()) {
  const auto take = [&](std::int64_t vectors) { return arena.take(dtype, {1, vectors * width_}); };
  hidden_ = take(1);
  embedding_ = take(1);
  if (config.has_guidance) guidance_embedding_ = take(1);
  text_ = take(6);
  image_ = take(6);
  single_ = take(3);
  out_ = take(2);
}

void Flux2Modulation::compute(ops::OpContext& context, const Flux2Transformer& transformer,
                              const ConstTensorView& timestep, const std::optional<ConstTensorView>& guidance) const {
  const Flux2OuterWeights& weights = transformer.outer();
  expects(guidance.has_value() == transformer.config().has_guidance,
          "guidance is given exactly to transformers that embed it");
  embed(context, weights.timestep, timestep, embedding_);
  if (guidance) {
    embed(context, weights.guidance, *guidance, guidance_embedding_);
    ops::add(context, guidance_embedding_, embedding_);
  }
  ops::silu(context, embedding_, embedding_);
  ops::linear(context, embedding_, weights.modulate_text->view(), text_);
  ops::linear(context, embedding_, weights.modulate_image->view(), image_);
  ops::linear(context, embedding_, weights.modulate_single->view(), single_);
  ops::linear(context, embedding_, weights.modulate_out->view(), out_);
}

void Flux2Modulation::embed(ops::OpContext& context, const Flux2EmbedderWeights& weights,
                            const ConstTensorView& sinusoid, const TensorView& embedding) const {
  ops::linear(context, as_row(sinusoid), weights.linear_1->view(), hidden_);
  ops::silu(context, hidden_, hidden_);
  ops::linear(context, hidden_, weights.linear_2->view(), embedding);
}

ConstTensorView Flux2Modulation::vector(const TensorView& vectors, std::int64_t index) const {
  return vectors.slice(1, index * width_, (index + 1) * width_).reshape({width_});
}

Flux2BranchModulation Flux2Modulation::branch(const TensorView& vectors, std::int64_t first) const {
  return {vector(vectors, first), vector(vectors, first + 1), vector(vectors, first + 2)};
}

}  // namespace lamina
