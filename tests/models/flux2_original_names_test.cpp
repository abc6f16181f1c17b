#include "models/flux2/flux2_original_names.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

struct Row {
  const char* name;
  const char* original;
  std::int64_t first = 0;  ///< of 6 rows, where the original has them in another order
  std::int64_t stride = 0;
};

/// As diffusers' conversion script has them.
TEST(Flux2OriginalNames, AreThoseOfTheConversionScript) {
  for (const Row& row :
       {Row{"x_embedder.weight", "img_in.weight"},
        Row{"time_guidance_embed.guidance_embedder.linear_2.weight", "guidance_in.out_layer.weight"},
        Row{"transformer_blocks.12.attn.norm_added_k.weight", "double_blocks.12.txt_attn.norm.key_norm.scale"},
        Row{"transformer_blocks.0.ff_context.linear_out.weight", "double_blocks.0.txt_mlp.2.weight"},
        Row{"single_transformer_blocks.7.attn.to_qkv_mlp_proj.weight", "single_blocks.7.linear1.weight"},
        Row{"single_transformer_blocks.7.attn.norm_q.weight", "single_blocks.7.norm.query_norm.scale"},
        Row{"transformer_blocks.3.attn.add_v_proj.weight", "double_blocks.3.txt_attn.qkv.weight", 12},
        Row{"transformer_blocks.3.attn.to_k.weight", "double_blocks.3.img_attn.qkv.weight", 6},
        Row{"norm_out.linear.weight", "final_layer.adaLN_modulation.1.weight", 3, -3}}) {
    const auto original = flux2_original_name(row.name);
    ASSERT_TRUE(original) << row.name;
    EXPECT_EQ(original->tensor, row.original);
    const auto rows = original->rows(6);
    ASSERT_EQ(rows.has_value(), row.first != 0) << row.name;
    if (!rows) continue;
    EXPECT_EQ(rows->first, row.first);
    EXPECT_EQ(rows->stride, row.stride);
    EXPECT_EQ(rows->run, row.stride == 0 ? 6 : 3);
  }
  for (const char* name : {"transformer_blocks.0", "transformer_blocks.0.attn.to_qkv.weight", "y_embedder.weight", ""})
    EXPECT_FALSE(flux2_original_name(name)) << name;
}

}  // namespace
}  // namespace lamina
