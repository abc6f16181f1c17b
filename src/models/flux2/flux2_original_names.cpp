#include "models/flux2/flux2_original_names.h"

#include <array>

namespace lamina {
namespace {

struct Entry {
  std::string_view name;
  std::string_view original;
  int part = 0;
  int parts = 1;
  bool is_swapped = false;
};

constexpr std::array kOutside{
    Entry{"x_embedder.weight", "img_in.weight"},
    Entry{"context_embedder.weight", "txt_in.weight"},
    Entry{"time_guidance_embed.timestep_embedder.linear_1.weight", "time_in.in_layer.weight"},
    Entry{"time_guidance_embed.timestep_embedder.linear_2.weight", "time_in.out_layer.weight"},
    Entry{"time_guidance_embed.guidance_embedder.linear_1.weight", "guidance_in.in_layer.weight"},
    Entry{"time_guidance_embed.guidance_embedder.linear_2.weight", "guidance_in.out_layer.weight"},
    Entry{"double_stream_modulation_img.linear.weight", "double_stream_modulation_img.lin.weight"},
    Entry{"double_stream_modulation_txt.linear.weight", "double_stream_modulation_txt.lin.weight"},
    Entry{"single_stream_modulation.linear.weight", "single_stream_modulation.lin.weight"},
    Entry{"proj_out.weight", "final_layer.linear.weight"},
    // The original has shift before scale.
    Entry{"norm_out.linear.weight", "final_layer.adaLN_modulation.1.weight", 0, 1, true},
};

constexpr std::array kDoubleBlock{
    Entry{"attn.to_q.weight", "img_attn.qkv.weight", 0, 3},
    Entry{"attn.to_k.weight", "img_attn.qkv.weight", 1, 3},
    Entry{"attn.to_v.weight", "img_attn.qkv.weight", 2, 3},
    Entry{"attn.add_q_proj.weight", "txt_attn.qkv.weight", 0, 3},
    Entry{"attn.add_k_proj.weight", "txt_attn.qkv.weight", 1, 3},
    Entry{"attn.add_v_proj.weight", "txt_attn.qkv.weight", 2, 3},
    Entry{"attn.norm_q.weight", "img_attn.norm.query_norm.scale"},
    Entry{"attn.norm_k.weight", "img_attn.norm.key_norm.scale"},
    Entry{"attn.norm_added_q.weight", "txt_attn.norm.query_norm.scale"},
    Entry{"attn.norm_added_k.weight", "txt_attn.norm.key_norm.scale"},
    Entry{"attn.to_out.0.weight", "img_attn.proj.weight"},
    Entry{"attn.to_add_out.weight", "txt_attn.proj.weight"},
    Entry{"ff.linear_in.weight", "img_mlp.0.weight"},
    Entry{"ff.linear_out.weight", "img_mlp.2.weight"},
    Entry{"ff_context.linear_in.weight", "txt_mlp.0.weight"},
    Entry{"ff_context.linear_out.weight", "txt_mlp.2.weight"},
};

constexpr std::array kSingleBlock{
    Entry{"attn.to_qkv_mlp_proj.weight", "linear1.weight"},
    Entry{"attn.to_out.weight", "linear2.weight"},
    Entry{"attn.norm_q.weight", "norm.query_norm.scale"},
    Entry{"attn.norm_k.weight", "norm.key_norm.scale"},
};

template <typename Entries>
std::optional<Flux2OriginalName> find(const Entries& entries, std::string_view name, const std::string& block) {
  for (const Entry& entry : entries)
    if (entry.name == name)
      return Flux2OriginalName{block + std::string(entry.original), entry.part, entry.parts, entry.is_swapped};
  return std::nullopt;
}

/// "3" of "transformer_blocks.3.attn.to_q.weight", and the name behind it.
template <typename Entries>
std::optional<Flux2OriginalName> find_in_block(const Entries& entries, std::string_view rest,
                                               const std::string& original_list) {
  const std::size_t end = rest.find('.');
  if (end == std::string_view::npos) return std::nullopt;
  return find(entries, rest.substr(end + 1), original_list + std::string(rest.substr(0, end + 1)));
}

}  // namespace

std::optional<RowRuns> Flux2OriginalName::rows(std::int64_t count) const {
  if (is_swapped) return RowRuns{count / 2, count / 2, -(count / 2)};
  if (parts == 1) return std::nullopt;
  return RowRuns{part * count, count, 0};
}

std::optional<Flux2OriginalName> flux2_original_name(std::string_view name) {
  constexpr std::string_view kDouble = "transformer_blocks.";
  constexpr std::string_view kSingle = "single_transformer_blocks.";
  if (name.starts_with(kDouble)) return find_in_block(kDoubleBlock, name.substr(kDouble.size()), "double_blocks.");
  if (name.starts_with(kSingle)) return find_in_block(kSingleBlock, name.substr(kSingle.size()), "single_blocks.");
  return find(kOutside, name, "");
}

}  // namespace lamina
