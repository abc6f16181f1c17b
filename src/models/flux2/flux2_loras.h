#pragma once

#include <vector>

#include "tensor/tensor_spec.h"
#include "weights/lora.h"
#include "weights/weight_binding.h"

namespace lamina {

/// The loader's table with LoRAs merged into it, one after the other: modules are named as the model names them, as
/// the original repository does ("double_blocks.0.img_attn.qkv", whose rows are q | k | v), or as the latter with
/// underscores ("lora_unet_double_blocks_0_img_attn_qkv"). `tensors` are all that the model reads, as the checkpoint
/// has them. Throws incompatible naming file and modules where some change none of them, or have another shape.
StoredFormOf with_loras(StoredFormOf stored_as, const std::vector<LoraFile>& loras,
                        const std::vector<TensorSpec>& tensors);

}  // namespace lamina
