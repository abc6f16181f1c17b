#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "offload/offload_plan.h"

/// The released models as offload plans, built from their dimensions with the checkpoints' own tensor names and shapes.
/// Dtypes are those that the weights have in memory: bf16, and f32 where the reference keeps f32.
namespace lamina::topologies {

struct Flux2Dims {
  std::int64_t heads = 0;  ///< of 128
  std::size_t double_blocks = 0;
  std::size_t single_blocks = 0;
  std::int64_t text_width = 0;
  bool guidance_embedding = false;
};
inline constexpr Flux2Dims kKlein4B{24, 5, 20, 7680, false};
inline constexpr Flux2Dims kKlein9B{32, 8, 24, 12288, false};
inline constexpr Flux2Dims kFlux2Dev{48, 8, 48, 15360, true};

/// Stack "step": double blocks, then single blocks.
OffloadPlan flux2(const Flux2Dims& dims);

struct Qwen3Dims {
  const char* prefix = "model.layers.";
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t heads = 0;  ///< of 128; 8 key and value heads
  std::size_t layers = 0;  ///< those whose output is needed
};
inline constexpr Qwen3Dims kQwen3Text4B{"model.layers.", 2560, 9728, 32, 27};
inline constexpr Qwen3Dims kQwen3Text8B{"model.layers.", 4096, 12288, 32, 27};
inline constexpr Qwen3Dims kQwen3VLText32B{"model.language_model.layers.", 5120, 25600, 64, 50};

/// Stack "prompt". The embedding table is not in the plan: its rows are gathered on the host.
OffloadPlan qwen3_text_encoder(const Qwen3Dims& dims);

/// Stacks "prompt": the token refiner; "schedule": the blocks' AdaLN projections; "step": the rest of the blocks.
OffloadPlan minimax_h3();

struct Cosmos3Dims {
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t heads = 0;  ///< of 128; 8 key and value heads
  std::size_t layers = 0;
};
inline constexpr Cosmos3Dims kCosmos3Nano{4096, 12288, 32, 36};
inline constexpr Cosmos3Dims kCosmos3Super{5120, 25600, 64, 64};

/// Stacks "prompt": the understanding halves, of the last one only what its keys and values need; "step": the
/// generation halves. With sound and action heads.
OffloadPlan cosmos3(const Cosmos3Dims& dims);

struct WanDims {
  std::int64_t heads = 0;  ///< of 128
  std::size_t blocks = 0;
  std::int64_t ffn = 0;
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  bool image_context = false;  ///< CLIP tokens beside the text (2.1 image to video)
};
inline constexpr WanDims kWan1_3B{12, 30, 8960, 16, 16, false};
inline constexpr WanDims kWan14B{40, 40, 13824, 16, 16, false};
inline constexpr WanDims kWan14BImageToVideo{40, 40, 13824, 36, 16, true};
inline constexpr WanDims kWan5B{24, 30, 14336, 48, 48, false};

/// Stacks "prompt": keys and values of the cross-attention; "step": the rest of the blocks.
OffloadPlan wan(const WanDims& dims);

/// Wan 2.2 A14B: stacks "prompt_high_noise", "step_high_noise", "prompt_low_noise", "step_low_noise". Both experts have
/// the same tensor names, so these carry the component's folder: "transformer_2/blocks.0.attn1.to_q.weight".
OffloadPlan wan_two_experts(const WanDims& dims);

}  // namespace lamina::topologies
