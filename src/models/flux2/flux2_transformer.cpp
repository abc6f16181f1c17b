#include "models/flux2/flux2_transformer.h"

#include <utility>

#include "models/flux2/flux2_shards.h"

namespace lamina {
namespace {

SliceOf slices_of_rank(const Flux2Config& config, const TensorParallel& parallel) {
  check_flux2_tensor_parallel(config, parallel);
  if (parallel.degree == 1) return {};
  return [config, parallel](const TensorSpec& stored) {
    return TensorSlice(stored, flux2_shard_rule(config, stored.name), parallel);
  };
}

}  // namespace

Flux2Transformer::Flux2Transformer(const Flux2Config& config, DTypeOf dtype_of, const TensorParallel& parallel)
    : config_(config), parallel_(parallel), weights_(std::move(dtype_of), slices_of_rank(config, parallel)) {
  const std::vector<BlockList> lists{{"transformer_blocks"}, {"single_transformer_blocks"}};
  declare_outer();
  plan_ = OffloadPlan{"transformer", lists, {Stack{"step", Phase::step, {}}}, weights_.take_groups()};
  const auto add_units = [&](std::size_t list, std::int64_t blocks, auto declare_block) {
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::string block = lists[list].name + "." + std::to_string(i);
      (this->*declare_block)(block);
      plan_.stacks.front().units.push_back(StreamUnit{block, "all", list, weights_.take_groups()});
    }
  };
  add_units(0, config_.double_blocks, &Flux2Transformer::declare_double_block);
  add_units(1, config_.single_blocks, &Flux2Transformer::declare_single_block);
  plan_.validate();
}

Flux2EmbedderWeights Flux2Transformer::declare_embedder(const std::string& prefix) {
  const std::int64_t width = config_.width();
  return {weights_.single(prefix + ".linear_1.weight", {width, config_.timestep_channels}),
          weights_.single(prefix + ".linear_2.weight", {width, width})};
}

void Flux2Transformer::declare_outer() {
  const std::int64_t width = config_.width();
  outer_.timestep = declare_embedder("time_guidance_embed.timestep_embedder");
  if (config_.has_guidance) outer_.guidance = declare_embedder("time_guidance_embed.guidance_embedder");
  outer_.modulate_image = weights_.single("double_stream_modulation_img.linear.weight", {6 * width, width});
  outer_.modulate_text = weights_.single("double_stream_modulation_txt.linear.weight", {6 * width, width});
  outer_.modulate_single = weights_.single("single_stream_modulation.linear.weight", {3 * width, width});
  outer_.modulate_out = weights_.single("norm_out.linear.weight", {2 * width, width});
  outer_.embed_image = weights_.single("x_embedder.weight", {width, config_.in_channels});
  outer_.embed_text = weights_.single("context_embedder.weight", {width, config_.text_channels});
  outer_.out = weights_.single("proj_out.weight", {config_.out_channels, width});
}

Flux2StreamWeights Flux2Transformer::declare_image_stream(const std::string& block) {
  const std::int64_t width = config_.width();
  const Shape square{width, width};
  return {
      weights_.fused(block + ".attn.to_qkv.weight", {{block + ".attn.to_q.weight", square},
                                                     {block + ".attn.to_k.weight", square},
                                                     {block + ".attn.to_v.weight", square}}),
      weights_.single(block + ".attn.norm_q.weight", {config_.head_dim}),
      weights_.single(block + ".attn.norm_k.weight", {config_.head_dim}),
      weights_.single(block + ".attn.to_out.0.weight", square),
      weights_.single(block + ".ff.linear_in.weight", {2 * config_.mlp_width, width}),
      weights_.single(block + ".ff.linear_out.weight", {width, config_.mlp_width}),
  };
}

Flux2StreamWeights Flux2Transformer::declare_text_stream(const std::string& block) {
  const std::int64_t width = config_.width();
  const Shape square{width, width};
  return {
      weights_.fused(block + ".attn.add_qkv_proj.weight", {{block + ".attn.add_q_proj.weight", square},
                                                           {block + ".attn.add_k_proj.weight", square},
                                                           {block + ".attn.add_v_proj.weight", square}}),
      weights_.single(block + ".attn.norm_added_q.weight", {config_.head_dim}),
      weights_.single(block + ".attn.norm_added_k.weight", {config_.head_dim}),
      weights_.single(block + ".attn.to_add_out.weight", square),
      weights_.single(block + ".ff_context.linear_in.weight", {2 * config_.mlp_width, width}),
      weights_.single(block + ".ff_context.linear_out.weight", {width, config_.mlp_width}),
  };
}

void Flux2Transformer::declare_double_block(const std::string& block) {
  Flux2DoubleBlock weights;
  weights.image = declare_image_stream(block);
  weights.text = declare_text_stream(block);
  double_blocks_.push_back(weights);
}

void Flux2Transformer::declare_single_block(const std::string& block) {
  const std::int64_t width = config_.width();
  single_blocks_.push_back({
      weights_.single(block + ".attn.to_qkv_mlp_proj.weight", {3 * width + 2 * config_.mlp_width, width}),
      weights_.single(block + ".attn.norm_q.weight", {config_.head_dim}),
      weights_.single(block + ".attn.norm_k.weight", {config_.head_dim}),
      weights_.single(block + ".attn.to_out.weight", {width, width + config_.mlp_width}),
  });
}

}  // namespace lamina
