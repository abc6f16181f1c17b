#include "models/qwen3/qwen3_sample.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "ops/attention.h"
#include "ops/copy.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/qk_norm_rope.h"

namespace lamina {
namespace {

constexpr auto kHiddenStates = Qwen3Config::kHiddenStates;

std::int64_t columns_needed(const Qwen3Config& config) {
  const std::int64_t attention = (2 * config.heads + 2 * config.kv_heads) * config.head_dim;
  return std::max(attention, 2 * config.intermediate);
}

void expect(const ConstTensorView& view, DType dtype, const Shape& shape, std::string_view what) {
  expects(view.dtype() == dtype && view.shape() == shape, "Qwen3Sample: {} is {} {}, expected {} {}", what,
          to_string(view.dtype()), to_string(view.shape()), to_string(dtype), to_string(shape));
}

}  // namespace

Qwen3Activations::Qwen3Activations(const Qwen3TextEncoder& encoder, std::int64_t tokens, DType dtype,
                                   Communicator* tensor_group, Arena& arena)
    : normed(arena.take(dtype, {tokens, encoder.config().hidden})),
      columns(arena.take(dtype, {tokens, columns_needed(encoder.rank_config())})),
      group(tensor_group) {
  const std::int64_t degree = encoder.tensor_parallel().degree;
  const std::size_t ranks = group == nullptr ? 1 : group->size();
  expects(degree == static_cast<std::int64_t>(ranks), "a text encoder of tensor-parallel degree {} in a group of {}",
          degree, ranks);
}

Qwen3Sample::Qwen3Sample(const Qwen3TextEncoder& encoder, const Qwen3Inputs& inputs,
                         const Qwen3Activations& activations, Arena& arena)
    : encoder_(encoder), config_(encoder.rank_config()), inputs_(inputs), activations_(activations) {
  const std::int64_t tokens = inputs.embeddings.size(0);
  expect(inputs.embeddings, inputs.embeddings.dtype(), {tokens, config_.hidden}, "embeddings");
  expect(inputs.cos, DType::f32, {tokens, config_.head_dim / 2}, "cos");
  expect(inputs.sin, DType::f32, {tokens, config_.head_dim / 2}, "sin");
  expects(activations.normed.size(0) == tokens, "Qwen3Sample: {} tokens in activations for {}", tokens,
          activations.normed.size(0));
  expects(inputs.valid_tokens >= 1 && inputs.valid_tokens <= tokens, "Qwen3Sample: {} valid tokens of {}",
          inputs.valid_tokens, tokens);
  const auto states = static_cast<std::int64_t>(kHiddenStates.size());
  hidden_states_ = arena.take(inputs.embeddings.dtype(), {tokens, states * config_.hidden});
}

void Qwen3Sample::run_unit(std::size_t unit, ops::OpContext& context) {
  expects(unit < encoder_.layers().size(), "Qwen3Sample: no unit {}", unit);
  const Qwen3Layer& layer = encoder_.layers()[unit];
  const Residual residual = residual_of(unit);
  add_attention(layer, residual, context);
  add_feed_forward(layer, residual.after, context);
}

void Qwen3Sample::finish(ops::OpContext& context) {
  if (encoder_.final_norm() == nullptr) return;
  const std::int64_t last = static_cast<std::int64_t>(kHiddenStates.size() - 1) * config_.hidden;
  const TensorView state = hidden_states_.slice(1, last, last + config_.hidden);
  ops::rms_norm(context, state, encoder_.final_norm()->view(), config_.epsilon, activations_.normed);
  ops::copy(context, activations_.normed, state);
}

/// The residual stream lives in the output: in the columns of the hidden state that it becomes next. So the first layer
/// behind a hidden state leaves that one as it is and goes on in the next one's columns.
Qwen3Sample::Residual Qwen3Sample::residual_of(std::size_t layer) const {
  const auto layers_before = static_cast<std::int64_t>(layer);
  const std::size_t index = static_cast<std::size_t>(
      std::upper_bound(kHiddenStates.begin(), kHiddenStates.end(), layers_before) - kHiddenStates.begin());
  const auto state = [&](std::size_t i) {
    const auto begin = static_cast<std::int64_t>(i) * config_.hidden;
    return hidden_states_.slice(1, begin, begin + config_.hidden);
  };
  const bool moves = layers_before == (index == 0 ? 0 : kHiddenStates[index - 1]);
  if (!moves) return {state(index), state(index), false};
  return {index == 0 ? inputs_.embeddings : state(index - 1), state(index), true};
}

void Qwen3Sample::add_attention(const Qwen3Layer& layer, const Residual& residual, ops::OpContext& context) const {
  const std::int64_t q_width = config_.heads * config_.head_dim;
  const std::int64_t kv_width = config_.kv_heads * config_.head_dim;
  const auto columns = [&](std::int64_t begin, std::int64_t count) {
    return activations_.columns.slice(1, begin, begin + count);
  };
  const auto heads = [&](std::int64_t begin, std::int64_t count) {
    return columns(begin, count).split_last(config_.head_dim);
  };
  const TensorView q = heads(0, q_width);
  const TensorView k = heads(q_width, kv_width);
  const TensorView v = heads(q_width + kv_width, kv_width);
  const std::int64_t attended = q_width + 2 * kv_width;

  ops::rms_norm(context, residual.before, layer.input_norm->view(), config_.epsilon, activations_.normed);
  ops::linear(context, activations_.normed, layer.qkv->view(), columns(0, attended));
  ops::qk_norm_rope(context, q, k, {layer.q_norm->view(), layer.k_norm->view(), config_.epsilon},
                    {inputs_.cos, inputs_.sin, ops::RopePairs::half_split});
  ops::AttentionOptions options;
  options.scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim));
  options.causal = true;
  options.valid_keys = inputs_.valid_tokens;
  ops::attention(context, q, k, v, heads(attended, q_width), options);

  const bool in_place = residual.moves && activations_.group == nullptr;  // a sum over ranks wants contiguous rows
  const TensorView product = in_place ? residual.after : activations_.normed;
  ops::linear(context, columns(attended, q_width), layer.out->view(), product);
  sum_over_ranks(context);
  if (residual.moves && !in_place) ops::copy(context, product, residual.after);
  ops::add(context, residual.moves ? residual.before : product, residual.after);
}

void Qwen3Sample::add_feed_forward(const Qwen3Layer& layer, const TensorView& residual, ops::OpContext& context) const {
  const TensorView gate_up = activations_.columns.slice(1, 0, 2 * config_.intermediate);
  const TensorView gate = gate_up.slice(1, 0, config_.intermediate);
  const TensorView up = gate_up.slice(1, config_.intermediate, 2 * config_.intermediate);
  ops::rms_norm(context, residual, layer.post_attention_norm->view(), config_.epsilon, activations_.normed);
  ops::linear(context, activations_.normed, layer.gate_up->view(), gate_up);
  ops::silu_mul(context, gate, up, gate);
  ops::linear(context, gate, layer.down->view(), activations_.normed);
  sum_over_ranks(context);
  ops::add(context, activations_.normed, residual);
}

void Qwen3Sample::sum_over_ranks(ops::OpContext& context) const {
  if (activations_.group == nullptr || context.is_planning()) return;
  activations_.group->all_reduce_async(activations_.normed, context.stream());
}

}  // namespace lamina
