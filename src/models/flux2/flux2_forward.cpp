#include "models/flux2/flux2_forward.h"

#include <cmath>
#include <string_view>

#include "base/error.h"
#include "comm/communicator.h"
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

}  // namespace

Flux2Forward::Flux2Forward(const Flux2Transformer& transformer, const Flux2Inputs& inputs,
                           const Flux2Modulation& modulation, const Flux2Activations& activations, Arena& arena)
    : transformer_(transformer),
      config_(transformer.config()),
      modulation_(modulation),
      inputs_(inputs),
      activations_(activations),
      residual_(arena.take(inputs.image.dtype(), {activations.shards().chunk(), config_.width()})) {
  const DType dtype = inputs.image.dtype();
  const Shape angles{all_tokens(), config_.head_dim / 2};
  expect(inputs.text, dtype, {inputs.text.size(0), config_.text_channels}, "text");
  expect(inputs.image, dtype, {inputs.image.size(0), config_.in_channels}, "image");
  expect(inputs.cos, DType::f32, angles, "cos");
  expect(inputs.sin, DType::f32, angles, "sin");
  expects(inputs.velocity_tokens >= 1 && inputs.velocity_tokens <= inputs.image.size(0),
          "Flux2Forward: a velocity of {} tokens out of {}", inputs.velocity_tokens, inputs.image.size(0));
  expects(activations.shards().tokens() == all_tokens(), "Flux2Forward: activations of {} tokens for {}",
          activations.shards().tokens(), all_tokens());
  const std::int64_t rows = activations.exchange() ? activations.shards().padded_tokens() : inputs.velocity_tokens;
  velocity_ = arena.take(DType::f32, {rows, config_.out_channels});
}

TensorView Flux2Forward::velocity() const {
  return activations_.exchange() ? velocity_.slice(0, picture().begin, picture().end) : velocity_;
}

void Flux2Forward::begin(ops::OpContext& context) const {
  for (const TokenRange& own : ranks(context)) embed(own, context);
}

void Flux2Forward::run_unit(std::size_t unit, ops::OpContext& context) const {
  const auto& double_blocks = transformer_.double_blocks();
  const auto& single_blocks = transformer_.single_blocks();
  expects(unit < double_blocks.size() + single_blocks.size(), "Flux2Forward: no unit {}", unit);
  for (const TokenRange& own : ranks(context)) {
    if (unit < double_blocks.size())
      run_double_block(double_blocks[unit], own, context);
    else
      run_single_block(single_blocks[unit - double_blocks.size()], own, context);
  }
}

void Flux2Forward::finish(ops::OpContext& context) const {
  for (const TokenRange& own : ranks(context)) find_velocity(own, context);
  if (!activations_.exchange() || context.is_planning()) return;
  Communicator& sequence = *activations_.groups().sequence;
  sequence.all_gather_async(velocity_.data(), velocity_.span_bytes() / sequence.size(), context.stream());
}

std::span<const TokenRange> Flux2Forward::ranks(const ops::OpContext& context) const {
  const SequenceShards& shards = activations_.shards();
  return context.is_planning() ? std::span(shards.all()) : std::span(&shards.own(), 1);
}

Flux2Forward::Part Flux2Forward::part(const TokenRange& own, const TokenRange& tokens) const {
  const TokenRange range = own.within(tokens);
  const std::int64_t begin = range.begin - own.begin;
  const std::int64_t end = range.end - own.begin;
  return {residual_.slice(0, begin, end), activations_.rows(begin, end), inputs_.cos.slice(0, range.begin, range.end),
          inputs_.sin.slice(0, range.begin, range.end)};
}

void Flux2Forward::embed(const TokenRange& own, ops::OpContext& context) const {
  const auto embed_rows = [&](const ConstTensorView& input, const TokenRange& tokens, const Parameter& weight) {
    const TokenRange range = own.within(tokens);
    if (range.empty()) return;
    ops::linear(context, input.slice(0, range.begin - tokens.begin, range.end - tokens.begin), weight.view(),
                residual_.slice(0, range.begin - own.begin, range.end - own.begin));
  };
  embed_rows(inputs_.text, text(), *transformer_.outer().embed_text);
  embed_rows(inputs_.image, image(), *transformer_.outer().embed_image);
}

std::vector<Flux2Forward::TokenStream> Flux2Forward::token_streams(const Flux2DoubleBlock& block,
                                                                   const TokenRange& own) const {
  std::vector<TokenStream> streams;
  if (const Part rows = part(own, text()); !rows.empty()) streams.push_back({rows, block.text, modulation_.text()});
  if (const Part rows = part(own, image()); !rows.empty()) streams.push_back({rows, block.image, modulation_.image()});
  return streams;
}

void Flux2Forward::run_double_block(const Flux2DoubleBlock& block, const TokenRange& own,
                                    ops::OpContext& context) const {
  const std::vector<TokenStream> streams = token_streams(block, own);
  for (const auto& [rows, weights, modulation] : streams) {
    normalise(rows, modulation.attention, context);
    project_qkv(rows, weights.qkv->view(), *weights.norm_q, *weights.norm_k, context);
  }
  attend(part(own), context);
  for (const auto& [rows, weights, modulation] : streams)
    ops::linear(context, rows.scratch.attended(), weights.out->view(), rows.scratch.projected());
  sum_projected(part(own), context);
  for (const auto& [rows, weights, modulation] : streams) {
    const Flux2BranchModulation& then = modulation.feed_forward;
    ops::gated_add_norm_modulate(context, rows.scratch.projected(), modulation.attention.gate, rows.residual,
                                 {then.scale, then.shift, config_.epsilon}, rows.scratch.hidden());
    project_feed_forward(rows, weights, context);
  }
  sum_projected(part(own), context);
  for (const auto& [rows, weights, modulation] : streams)
    ops::gated_add(context, rows.scratch.projected(), modulation.feed_forward.gate, rows.residual);
}

void Flux2Forward::run_single_block(const Flux2SingleBlock& block, const TokenRange& own,
                                    ops::OpContext& context) const {
  const Part rows = part(own);
  const Flux2Activations::Rows& scratch = rows.scratch;
  const Flux2BranchModulation modulation = modulation_.single();
  const ConstTensorView qkv_mlp = block.qkv_mlp->view();
  const std::int64_t qkv_rows = scratch.qkv().size(1);

  if (!rows.empty()) {
    normalise(rows, modulation, context);
    project_qkv(rows, qkv_mlp.slice(0, 0, qkv_rows), *block.norm_q, *block.norm_k, context);
    ops::linear(context, scratch.hidden(), qkv_mlp.slice(0, qkv_rows, qkv_mlp.size(0)), scratch.gate_up());
  }
  attend(rows, context);
  if (rows.empty()) return;
  ops::silu_mul(context, scratch.gate(), scratch.up(), scratch.gate());
  ops::linear(context, scratch.attended_gate(), block.out->view(), scratch.projected());
  sum_projected(rows, context);
  ops::gated_add(context, scratch.projected(), modulation.gate, rows.residual);
}

void Flux2Forward::find_velocity(const TokenRange& own, ops::OpContext& context) const {
  const TokenRange tokens = own.within(picture());
  if (tokens.empty()) return;
  const Part rows = part(own, tokens);
  const Flux2Modulation::Out modulation = modulation_.out();
  ops::layer_norm_modulate(context, rows.residual, modulation.scale, modulation.shift, config_.epsilon,
                           rows.scratch.hidden());
  ops::linear(context, rows.scratch.hidden(), transformer_.outer().out->view(),
              velocity().slice(0, tokens.begin - picture().begin, tokens.end - picture().begin));
}

void Flux2Forward::normalise(const Part& part, const Flux2BranchModulation& modulation, ops::OpContext& context) const {
  ops::layer_norm_modulate(context, part.residual, modulation.scale, modulation.shift, config_.epsilon,
                           part.scratch.hidden());
}

void Flux2Forward::project_qkv(const Part& part, const ConstTensorView& weight, const Parameter& norm_q,
                               const Parameter& norm_k, ops::OpContext& context) const {
  const Flux2Activations::Rows& scratch = part.scratch;
  ops::linear(context, scratch.hidden(), weight, scratch.qkv());
  ops::qk_norm_rope(context, scratch.q_heads(), scratch.k_heads(), {norm_q.view(), norm_k.view(), config_.epsilon},
                    {part.cos, part.sin, ops::RopePairs::interleaved});
}

void Flux2Forward::attend(const Part& all, ops::OpContext& context) const {
  const Flux2Activations::Rows& scratch = all.scratch;
  ops::AttentionOptions options;
  options.scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim));
  const std::optional<HeadExchange>& exchange = activations_.exchange();
  if (!exchange) {
    ops::attention(context, scratch.q_heads(), scratch.k_heads(), scratch.v_heads(), scratch.attended_heads(), options);
    return;
  }
  const TensorView qkv = exchange->to_heads(scratch.qkv(), context);
  const std::int64_t width = qkv.size(1) / 3;
  const auto heads = [&](std::int64_t group) {
    return qkv.slice(1, group * width, (group + 1) * width).split_last(config_.head_dim);
  };
  ops::attention(context, heads(0), heads(1), heads(2), exchange->attended().split_last(config_.head_dim), options);
  exchange->to_tokens(scratch.attended(), context);
}

void Flux2Forward::project_feed_forward(const Part& part, const Flux2StreamWeights& weights,
                                        ops::OpContext& context) const {
  const Flux2Activations::Rows& scratch = part.scratch;
  ops::linear(context, scratch.hidden(), weights.ff_in->view(), scratch.gate_up());
  ops::silu_mul(context, scratch.gate(), scratch.up(), scratch.gate());
  ops::linear(context, scratch.gate(), weights.ff_out->view(), scratch.projected());
}

void Flux2Forward::sum_projected(const Part& all, ops::OpContext& context) const {
  Communicator* tensor = activations_.groups().tensor;
  if (tensor == nullptr || all.empty() || context.is_planning()) return;
  tensor->all_reduce_async(all.scratch.projected(), context.stream());
}

}  // namespace lamina
