#include "offload/model_topologies.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace lamina::topologies {
namespace {

constexpr std::int64_t kHeadDim = 128;

struct Rows {
  std::string name;
  std::int64_t count;
};

/// Collects weights whose names share a prefix. Linear layers are [out, in].
class Weights {
 public:
  explicit Weights(std::string prefix = "") : prefix_(std::move(prefix)) {}

  Weights& tensor(const std::string& name, const Shape& shape, DType dtype = DType::bf16) {
    groups_.push_back(ParameterGroup::single({prefix_ + name, dtype, shape}));
    return *this;
  }
  Weights& linear(const std::string& name, std::int64_t out, std::int64_t in) {
    return tensor(name + ".weight", {out, in});
  }
  Weights& biased_linear(const std::string& name, std::int64_t out, std::int64_t in, DType dtype = DType::bf16) {
    return tensor(name + ".weight", {out, in}, dtype).tensor(name + ".bias", {out}, dtype);
  }
  Weights& fused_linear(const std::string& name, const std::vector<Rows>& parts, std::int64_t in) {
    std::vector<TensorSpec> members;
    for (const Rows& rows : parts)
      members.push_back({fmt::format("{}{}.weight", prefix_, rows.name), DType::bf16, {rows.count, in}});
    groups_.push_back(ParameterGroup::fused(fmt::format("{}{}.weight", prefix_, name), std::move(members)));
    return *this;
  }
  Weights& fused_biased_linear(const std::string& name, const std::vector<Rows>& parts, std::int64_t in) {
    fused_linear(name, parts, in);
    std::vector<TensorSpec> members;
    for (const Rows& rows : parts)
      members.push_back({fmt::format("{}{}.bias", prefix_, rows.name), DType::bf16, {rows.count}});
    groups_.push_back(ParameterGroup::fused(fmt::format("{}{}.bias", prefix_, name), std::move(members)));
    return *this;
  }

  std::vector<ParameterGroup> groups() const { return groups_; }

 private:
  std::string prefix_;
  std::vector<ParameterGroup> groups_;
};

/// Adds a unit of block `list`.`index` whose groups `build` makes from the prefix "`list`.`index`.".
template <typename Build>
void add_unit(Stack& stack, const OffloadPlan& plan, std::size_t list, std::size_t index, const char* part,
              const Build& build) {
  const std::string block = fmt::format("{}.{}", plan.lists[list].name, index);
  stack.units.push_back({block, part, list, build(block + ".").groups()});
}

// FLUX.2

Weights flux2_double_block(const std::string& prefix, std::int64_t width) {
  Weights weights(prefix);
  weights.fused_linear("attn.to_qkv", {{"attn.to_q", width}, {"attn.to_k", width}, {"attn.to_v", width}}, width)
      .fused_linear("attn.add_qkv_proj",
                    {{"attn.add_q_proj", width}, {"attn.add_k_proj", width}, {"attn.add_v_proj", width}}, width);
  for (const char* norm : {"norm_q", "norm_k", "norm_added_q", "norm_added_k"})
    weights.tensor(fmt::format("attn.{}.weight", norm), {kHeadDim});
  weights.linear("attn.to_out.0", width, width).linear("attn.to_add_out", width, width);
  for (const char* stream : {"ff", "ff_context"})
    weights.linear(fmt::format("{}.linear_in", stream), 6 * width, width)
        .linear(fmt::format("{}.linear_out", stream), width, 3 * width);
  return weights;
}

Weights flux2_single_block(const std::string& prefix, std::int64_t width) {
  return Weights(prefix)
      .linear("attn.to_qkv_mlp_proj", 9 * width, width)
      .tensor("attn.norm_q.weight", {kHeadDim})
      .tensor("attn.norm_k.weight", {kHeadDim})
      .linear("attn.to_out", width, 4 * width);
}

Weights flux2_outside(const Flux2Dims& dims, std::int64_t width) {
  Weights weights;
  const auto add_embedder = [&](const std::string& name) {
    weights.linear(name + ".linear_1", width, 256).linear(name + ".linear_2", width, width);
  };
  add_embedder("time_guidance_embed.timestep_embedder");
  if (dims.guidance_embedding) add_embedder("time_guidance_embed.guidance_embedder");
  return weights.linear("double_stream_modulation_img.linear", 6 * width, width)
      .linear("double_stream_modulation_txt.linear", 6 * width, width)
      .linear("single_stream_modulation.linear", 3 * width, width)
      .linear("x_embedder", width, 128)
      .linear("context_embedder", width, dims.text_width)
      .linear("norm_out.linear", 2 * width, width)
      .linear("proj_out", 128, width);
}

// MiniMax-H3

constexpr std::int64_t kH3Hidden = 5376;
constexpr std::int64_t kH3Attention = 56 * kHeadDim;
constexpr std::int64_t kH3Ffn = 14336;
constexpr std::int64_t kH3TimeHidden = 5376;
constexpr std::int64_t kH3Time = 2688;
constexpr std::size_t kH3Blocks = 50;
constexpr std::size_t kH3RefinerBlocks = 2;

Weights h3_attention_and_ffn(const std::string& prefix) {
  return Weights(prefix)
      .tensor("norm1.weight", {kH3Hidden})
      .fused_linear("attn.to_qkv",
                    {{"attn.to_q", kH3Attention}, {"attn.to_k", kH3Attention}, {"attn.to_v", kH3Attention}}, kH3Hidden)
      .tensor("attn.norm_q.weight", {kHeadDim})
      .tensor("attn.norm_k.weight", {kHeadDim})
      .linear("attn.to_out.0", kH3Hidden, kH3Attention)
      .tensor("norm2.weight", {kH3Hidden})
      .linear("ff.net.0.proj", 2 * kH3Ffn, kH3Hidden)
      .linear("ff.net.2", kH3Hidden, kH3Ffn);
}

Weights h3_adaln(const std::string& prefix) {
  return Weights(prefix).biased_linear("adaln_proj.linear", 3 * 6 * kH3Hidden, kH3Time);
}

Weights h3_outside() {
  return Weights()
      .biased_linear("proj_in", kH3Hidden, 96, DType::f32)
      .biased_linear("audio_proj_in", kH3Hidden, 32, DType::f32)
      .biased_linear("context_embedder", kH3Hidden, 5120)
      .biased_linear("time_embedder.linear_1", kH3TimeHidden, 256, DType::f32)
      .biased_linear("time_embedder.linear_2", kH3Time, kH3TimeHidden, DType::f32)
      .tensor("token_refiner.final_norm.weight", {kH3Hidden})
      .tensor("norm_out.norm.weight", {kH3Hidden})
      .biased_linear("norm_out.linear", 2 * kH3Hidden, kH3Time)
      .biased_linear("proj_out", 96, kH3Hidden, DType::f32)
      .biased_linear("audio_proj_out", 32, kH3Hidden, DType::f32);
}

// Cosmos 3

/// The spelling of one of the two halves of a layer.
struct CosmosHalf {
  const char* norm_suffix;
  std::array<const char*, 4> projections;  ///< query, key, value, output
  const char* query_norm;
  const char* key_norm;
  const char* mlp;
};
constexpr CosmosHalf kUnderstanding{"", {"to_q", "to_k", "to_v", "to_out"}, "norm_q", "norm_k", "mlp"};
constexpr CosmosHalf kGeneration{"_moe_gen",
                                 {"add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"},
                                 "norm_added_q",
                                 "norm_added_k",
                                 "mlp_moe_gen"};

Weights cosmos3_half(const std::string& prefix, const Cosmos3Dims& dims, const CosmosHalf& half) {
  const auto attention = [](const char* name) { return fmt::format("self_attn.{}", name); };
  const auto mlp = [&](const char* name) { return fmt::format("{}.{}", half.mlp, name); };
  const std::int64_t key_width = 8 * kHeadDim;
  const std::vector<Rows> query_key_value{{attention(half.projections[0]), dims.heads * kHeadDim},
                                          {attention(half.projections[1]), key_width},
                                          {attention(half.projections[2]), key_width}};
  return Weights(prefix)
      .tensor(fmt::format("input_layernorm{}.weight", half.norm_suffix), {dims.hidden})
      .fused_linear(attention("qkv") + half.norm_suffix, query_key_value, dims.hidden)
      .tensor(attention(half.query_norm) + ".weight", {kHeadDim})
      .tensor(attention(half.key_norm) + ".weight", {kHeadDim})
      .linear(attention(half.projections[3]), dims.hidden, dims.heads * kHeadDim)
      .tensor(fmt::format("post_attention_layernorm{}.weight", half.norm_suffix), {dims.hidden})
      .fused_linear(mlp("gate_up_proj"), {{mlp("gate_proj"), dims.intermediate}, {mlp("up_proj"), dims.intermediate}},
                    dims.hidden)
      .linear(mlp("down_proj"), dims.hidden, dims.intermediate);
}

/// Nothing reads the last layer's understanding output, only its keys and values.
Weights cosmos3_last_understanding(const std::string& prefix, const Cosmos3Dims& dims) {
  return Weights(prefix)
      .tensor("input_layernorm.weight", {dims.hidden})
      .fused_linear("self_attn.kv", {{"self_attn.to_k", 8 * kHeadDim}, {"self_attn.to_v", 8 * kHeadDim}}, dims.hidden)
      .tensor("self_attn.norm_k.weight", {kHeadDim});
}

Weights cosmos3_outside(const Cosmos3Dims& dims) {
  constexpr std::int64_t kDomains = 32;
  constexpr std::int64_t kSignal = 64;  // width of sound and action
  return Weights()
      .biased_linear("proj_in", dims.hidden, 192)
      .biased_linear("time_embedder.linear_1", dims.hidden, 256, DType::f32)
      .biased_linear("time_embedder.linear_2", dims.hidden, dims.hidden, DType::f32)
      .biased_linear("audio_proj_in", dims.hidden, kSignal)
      .tensor("audio_modality_embed", {dims.hidden})
      .linear("action_proj_in.fc", kDomains, kSignal * dims.hidden)
      .linear("action_proj_in.bias", kDomains, dims.hidden)
      .tensor("action_modality_embed", {dims.hidden})
      .tensor("norm_moe_gen.weight", {dims.hidden})
      .biased_linear("proj_out", 192, dims.hidden)
      .biased_linear("audio_proj_out", kSignal, dims.hidden)
      .linear("action_proj_out.fc", kDomains, dims.hidden * kSignal)
      .linear("action_proj_out.bias", kDomains, kSignal);
}

// Wan

Weights wan_cross_keys(const std::string& prefix, const WanDims& dims) {
  const std::int64_t width = dims.heads * kHeadDim;
  Weights weights(prefix);
  weights.fused_biased_linear("attn2.to_kv", {{"attn2.to_k", width}, {"attn2.to_v", width}}, width)
      .tensor("attn2.norm_k.weight", {width});
  if (dims.image_context)
    weights.fused_biased_linear("attn2.add_kv_proj", {{"attn2.add_k_proj", width}, {"attn2.add_v_proj", width}}, width)
        .tensor("attn2.norm_added_k.weight", {width});
  return weights;
}

Weights wan_block(const std::string& prefix, const WanDims& dims) {
  const std::int64_t width = dims.heads * kHeadDim;
  return Weights(prefix)
      .tensor("scale_shift_table", {1, 6, width}, DType::f32)
      .fused_biased_linear("attn1.to_qkv", {{"attn1.to_q", width}, {"attn1.to_k", width}, {"attn1.to_v", width}}, width)
      .tensor("attn1.norm_q.weight", {width})
      .tensor("attn1.norm_k.weight", {width})
      .biased_linear("attn1.to_out.0", width, width)
      .tensor("norm2.weight", {width}, DType::f32)
      .tensor("norm2.bias", {width}, DType::f32)
      .biased_linear("attn2.to_q", width, width)
      .tensor("attn2.norm_q.weight", {width})
      .biased_linear("attn2.to_out.0", width, width)
      .biased_linear("ffn.net.0.proj", dims.ffn, width)
      .biased_linear("ffn.net.2", width, dims.ffn);
}

Weights wan_outside(const std::string& prefix, const WanDims& dims) {
  const std::int64_t width = dims.heads * kHeadDim;
  constexpr std::int64_t kImage = 1280;
  Weights weights(prefix);
  weights.tensor("patch_embedding.weight", {width, dims.in_channels, 1, 2, 2})
      .tensor("patch_embedding.bias", {width})
      .biased_linear("condition_embedder.time_embedder.linear_1", width, 256, DType::f32)
      .biased_linear("condition_embedder.time_embedder.linear_2", width, width, DType::f32)
      .biased_linear("condition_embedder.time_proj", 6 * width, width)
      .biased_linear("condition_embedder.text_embedder.linear_1", width, 4096)
      .biased_linear("condition_embedder.text_embedder.linear_2", width, width)
      .tensor("scale_shift_table", {1, 2, width}, DType::f32)
      .biased_linear("proj_out", 4 * dims.out_channels, width);
  if (!dims.image_context) return weights;
  return weights.tensor("condition_embedder.image_embedder.norm1.weight", {kImage}, DType::f32)
      .tensor("condition_embedder.image_embedder.norm1.bias", {kImage}, DType::f32)
      .biased_linear("condition_embedder.image_embedder.ff.net.0.proj", kImage, kImage)
      .biased_linear("condition_embedder.image_embedder.ff.net.2", width, kImage)
      .tensor("condition_embedder.image_embedder.norm2.weight", {width}, DType::f32)
      .tensor("condition_embedder.image_embedder.norm2.bias", {width}, DType::f32);
}

/// Adds one transformer: a block list, a prompt and a step stack whose names end in `suffix`, and what is outside.
void add_wan_transformer(OffloadPlan& plan, const WanDims& dims, const std::string& prefix, const std::string& suffix) {
  const std::size_t list = plan.lists.size();
  plan.lists.push_back({prefix + "blocks"});
  Stack prompt{"prompt" + suffix, Phase::prompt, {}};
  Stack step{"step" + suffix, Phase::step, {}};
  for (std::size_t i = 0; i < dims.blocks; ++i) {
    add_unit(prompt, plan, list, i, "cross_keys", [&](const std::string& name) { return wan_cross_keys(name, dims); });
    add_unit(step, plan, list, i, "rest", [&](const std::string& name) { return wan_block(name, dims); });
  }
  plan.stacks.push_back(std::move(prompt));
  plan.stacks.push_back(std::move(step));
  for (ParameterGroup& group : wan_outside(prefix, dims).groups()) plan.outside.push_back(std::move(group));
}

// Qwen3

Weights qwen3_layer(const std::string& prefix, const Qwen3Dims& dims) {
  const std::int64_t query_width = dims.heads * kHeadDim;
  const std::int64_t key_width = 8 * kHeadDim;
  return Weights(prefix)
      .tensor("input_layernorm.weight", {dims.hidden})
      .fused_linear(
          "self_attn.qkv_proj",
          {{"self_attn.q_proj", query_width}, {"self_attn.k_proj", key_width}, {"self_attn.v_proj", key_width}},
          dims.hidden)
      .tensor("self_attn.q_norm.weight", {kHeadDim})
      .tensor("self_attn.k_norm.weight", {kHeadDim})
      .linear("self_attn.o_proj", dims.hidden, query_width)
      .tensor("post_attention_layernorm.weight", {dims.hidden})
      .fused_linear("mlp.gate_up_proj", {{"mlp.gate_proj", dims.intermediate}, {"mlp.up_proj", dims.intermediate}},
                    dims.hidden)
      .linear("mlp.down_proj", dims.hidden, dims.intermediate);
}

}  // namespace

OffloadPlan flux2(const Flux2Dims& dims) {
  const std::int64_t width = dims.heads * kHeadDim;
  OffloadPlan plan{"transformer", {{"transformer_blocks"}, {"single_transformer_blocks"}}, {}, {}};
  Stack step{"step", Phase::step, {}};
  for (std::size_t i = 0; i < dims.double_blocks; ++i)
    add_unit(step, plan, 0, i, "all", [&](const std::string& name) { return flux2_double_block(name, width); });
  for (std::size_t i = 0; i < dims.single_blocks; ++i)
    add_unit(step, plan, 1, i, "all", [&](const std::string& name) { return flux2_single_block(name, width); });
  plan.stacks.push_back(std::move(step));
  plan.outside = flux2_outside(dims, width).groups();
  return plan;
}

OffloadPlan qwen3_text_encoder(const Qwen3Dims& dims) {
  const std::string_view prefix = dims.prefix;
  OffloadPlan plan{"text_encoder", {{std::string(prefix.substr(0, prefix.size() - 1))}}, {}, {}};
  Stack prompt{"prompt", Phase::prompt, {}};
  for (std::size_t i = 0; i < dims.layers; ++i)
    add_unit(prompt, plan, 0, i, "all", [&](const std::string& name) { return qwen3_layer(name, dims); });
  plan.stacks.push_back(std::move(prompt));
  return plan;
}

OffloadPlan minimax_h3() {
  OffloadPlan plan{"transformer", {{"transformer_blocks"}, {"token_refiner.refiner_blocks", false}}, {}, {}};
  Stack prompt{"prompt", Phase::prompt, {}};
  for (std::size_t i = 0; i < kH3RefinerBlocks; ++i) add_unit(prompt, plan, 1, i, "all", h3_attention_and_ffn);
  Stack schedule{"schedule", Phase::schedule, {}};
  Stack step{"step", Phase::step, {}};
  for (std::size_t i = 0; i < kH3Blocks; ++i) {
    add_unit(schedule, plan, 0, i, "adaln", h3_adaln);
    add_unit(step, plan, 0, i, "rest", h3_attention_and_ffn);
  }
  plan.stacks = {std::move(prompt), std::move(schedule), std::move(step)};
  plan.outside = h3_outside().groups();
  return plan;
}

OffloadPlan cosmos3(const Cosmos3Dims& dims) {
  OffloadPlan plan{"transformer", {{"layers"}}, {}, {}};
  Stack prompt{"prompt", Phase::prompt, {}};
  Stack step{"step", Phase::step, {}};
  for (std::size_t i = 0; i < dims.layers; ++i) {
    const bool last = i + 1 == dims.layers;
    add_unit(prompt, plan, 0, i, "understanding", [&](const std::string& name) {
      return last ? cosmos3_last_understanding(name, dims) : cosmos3_half(name, dims, kUnderstanding);
    });
    add_unit(step, plan, 0, i, "generation",
             [&](const std::string& name) { return cosmos3_half(name, dims, kGeneration); });
  }
  plan.stacks = {std::move(prompt), std::move(step)};
  plan.outside = cosmos3_outside(dims).groups();
  return plan;
}

OffloadPlan wan(const WanDims& dims) {
  OffloadPlan plan{"transformer", {}, {}, {}};
  add_wan_transformer(plan, dims, "", "");
  return plan;
}

OffloadPlan wan_two_experts(const WanDims& dims) {
  OffloadPlan plan{"transformer, transformer_2", {}, {}, {}};
  add_wan_transformer(plan, dims, "transformer/", "_high_noise");
  add_wan_transformer(plan, dims, "transformer_2/", "_low_noise");
  return plan;
}

}  // namespace lamina::topologies
