#include "models/flux2/flux2_forward.h"

#include <cmath>
#include <string_view>

#include "base/error.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/qk_norm_rope.h"

namespace lamina {
namespace {

void expect(const ConstTensorView& view, DType dtype, const Shape& shape, std::string_view what) {
  expects(view.dtype() == dtype && view.shape() == shape, "Flux2Forward: {} is {} {}, expected {} {}", what,
          to_string(view.dtype()), to_string(view.shape()), to_string(dtype), to_string(shape));
}

/// y += gate * (x wᵀ), by way of `product`.
void add_projection(ops::OpContext& context, const ConstTensorView& x, const Parameter& weight,
                    const ConstTensorView& gate, const TensorView& product, const TensorView& y) {
  ops::linear(context, x, weight.view(), product);
  ops::gated_add(context, product, gate, y);
}

}  // namespace

Flux2Forward::Flux2Forward(const Flux2Transformer& transformer, const Flux2Inputs& inputs,
                           const Flux2Modulation& modulation, const Flux2Activations& activations, Arena& arena)
    : transformer_(transformer),
      config_(transformer.config()),
      modulation_(modulation),
      inputs_(inputs),
      residual_(arena.take(inputs.image.dtype(), {inputs.text.size(0) + inputs.image.size(0), config_.width()})),
      velocity_(arena.take(DType::f32, {inputs.velocity_tokens, config_.out_channels})),
      activations_(activations.rows(0, all_tokens())) {
  if (const std::int64_t degree = transformer.tensor_parallel().degree; degree != 1)
    fail(ErrorCode::not_implemented, "a FLUX.2 transformer cannot run with tensor parallelism of degree {} yet, only 1",
         degree);
  const DType dtype = inputs.image.dtype();
  const Shape angles{all_tokens(), config_.head_dim / 2};
  expect(inputs.text, dtype, {inputs.text.size(0), config_.text_channels}, "text");
  expect(inputs.image, dtype, {inputs.image.size(0), config_.in_channels}, "image");
  expect(inputs.cos, DType::f32, angles, "cos");
  expect(inputs.sin, DType::f32, angles, "sin");
  expects(inputs.velocity_tokens >= 1 && inputs.velocity_tokens <= inputs.image.size(0),
          "Flux2Forward: a velocity of {} tokens out of {}", inputs.velocity_tokens, inputs.image.size(0));
}

void Flux2Forward::begin(ops::OpContext& context) const {
  const Flux2OuterWeights& weights = transformer_.outer();
  const std::int64_t text = text_tokens();
  ops::linear(context, inputs_.text, weights.embed_text->view(), residual_.slice(0, 0, text));
  ops::linear(context, inputs_.image, weights.embed_image->view(), residual_.slice(0, text, all_tokens()));
}

void Flux2Forward::run_unit(std::size_t unit, ops::OpContext& context) const {
  const auto& double_blocks = transformer_.double_blocks();
  const auto& single_blocks = transformer_.single_blocks();
  expects(unit < double_blocks.size() + single_blocks.size(), "Flux2Forward: no unit {}", unit);
  if (unit < double_blocks.size())
    run_double_block(double_blocks[unit], context);
  else
    run_single_block(single_blocks[unit - double_blocks.size()], context);
}

void Flux2Forward::finish(ops::OpContext& context) const {
  const std::int64_t text = text_tokens();
  const Part picture = part(text, text + inputs_.velocity_tokens);
  const Flux2Modulation::Out modulation = modulation_.out();
  ops::layer_norm_modulate(context, picture.residual, modulation.scale, modulation.shift, config_.epsilon,
                           picture.scratch.hidden());
  ops::linear(context, picture.scratch.hidden(), transformer_.outer().out->view(), velocity_);
}

Flux2Forward::Part Flux2Forward::part(std::int64_t begin, std::int64_t end) const {
  return {residual_.slice(0, begin, end), activations_.rows(begin, end), inputs_.cos.slice(0, begin, end),
          inputs_.sin.slice(0, begin, end)};
}

void Flux2Forward::run_double_block(const Flux2DoubleBlock& block, ops::OpContext& context) const {
  struct TokenStream {
    Part part;
    const Flux2StreamWeights& weights;
    Flux2Modulation::DoubleBlock modulation;
  };
  const TokenStream streams[] = {{part(0, text_tokens()), block.text, modulation_.text()},
                                 {part(text_tokens(), all_tokens()), block.image, modulation_.image()}};
  for (const auto& [rows, weights, modulation] : streams) {
    normalise(rows, modulation.attention, context);
    project_qkv(rows, weights.qkv->view(), *weights.norm_q, *weights.norm_k, context);
  }
  attend(part(0, all_tokens()), context);
  for (const auto& [rows, weights, modulation] : streams) {
    add_projection(context, rows.scratch.hidden(), *weights.out, modulation.attention.gate, rows.scratch.projected(),
                   rows.residual);
    add_feed_forward(rows, weights, modulation.feed_forward, context);
  }
}

void Flux2Forward::run_single_block(const Flux2SingleBlock& block, ops::OpContext& context) const {
  const Part all = part(0, all_tokens());
  const Flux2Activations& scratch = all.scratch;
  const Flux2BranchModulation modulation = modulation_.single();
  const ConstTensorView qkv_mlp = block.qkv_mlp->view();
  const std::int64_t qkv_rows = 3 * config_.width();

  normalise(all, modulation, context);
  project_qkv(all, qkv_mlp.slice(0, 0, qkv_rows), *block.norm_q, *block.norm_k, context);
  ops::linear(context, scratch.hidden(), qkv_mlp.slice(0, qkv_rows, qkv_mlp.size(0)), scratch.gate_up());
  attend(all, context);
  ops::silu_mul(context, scratch.gate(), scratch.up(), scratch.gate());
  add_projection(context, scratch.hidden_gate(), *block.out, modulation.gate, scratch.projected(), all.residual);
}

void Flux2Forward::normalise(const Part& part, const Flux2BranchModulation& modulation, ops::OpContext& context) const {
  ops::layer_norm_modulate(context, part.residual, modulation.scale, modulation.shift, config_.epsilon,
                           part.scratch.hidden());
}

void Flux2Forward::project_qkv(const Part& part, const ConstTensorView& weight, const Parameter& norm_q,
                               const Parameter& norm_k, ops::OpContext& context) const {
  const auto rotate = [&](const TensorView& heads, const Parameter& norm) {
    ops::qk_norm_rope(context, heads, norm.view(), part.cos, part.sin, ops::RopePairs::interleaved, config_.epsilon);
  };
  ops::linear(context, part.scratch.hidden(), weight, part.scratch.qkv());
  rotate(part.scratch.q_heads(), norm_q);
  rotate(part.scratch.k_heads(), norm_k);
}

void Flux2Forward::attend(const Part& part, ops::OpContext& context) const {
  const Flux2Activations& scratch = part.scratch;
  ops::AttentionOptions options;
  options.scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim));
  ops::attention(context, scratch.q_heads(), scratch.k_heads(), scratch.v_heads(), scratch.hidden_heads(), options);
}

void Flux2Forward::add_feed_forward(const Part& part, const Flux2StreamWeights& weights,
                                    const Flux2BranchModulation& modulation, ops::OpContext& context) const {
  const Flux2Activations& scratch = part.scratch;
  normalise(part, modulation, context);
  ops::linear(context, scratch.hidden(), weights.ff_in->view(), scratch.gate_up());
  ops::silu_mul(context, scratch.gate(), scratch.up(), scratch.gate());
  add_projection(context, scratch.gate(), *weights.ff_out, modulation.gate, scratch.projected(), part.residual);
}

}  // namespace lamina
