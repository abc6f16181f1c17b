#pragma once

#include "base/config_reader.h"
#include "models/flux2/flux2_config.h"
#include "models/model_groups.h"
#include "models/qwen3/qwen3_config.h"
#include "weights/tensor_slice.h"

namespace lamina {

// Which part of a component a rank has. Both throw incompatible where the component cannot be divided over the groups,
// naming file, field, flag and the legal values.

/// Heads and feed-forward features divide by the tensor-parallel ranks, the heads of each by the sequence-parallel
/// ones.
TensorParallel transformer_part(const ConfigReader& file, const Flux2Config& config, const ModelGroups& groups);

/// Of the ranks of `group`; null: the rank has all of the encoder.
TensorParallel text_encoder_part(const ConfigReader& file, const Qwen3Config& config, const Communicator* group);

}  // namespace lamina
