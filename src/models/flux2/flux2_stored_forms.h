#pragma once

#include "models/flux2/flux2_config.h"
#include "models/module_weights.h"
#include "weights/checkpoint.h"
#include "weights/weight_binding.h"

namespace lamina {

/// The loader's table for FLUX.2 transformers: how a checkpoint stores the tensors that the model names. Asked for a
/// tensor, in this order:
///
/// * to_q, to_k, to_v (and add_q_proj, ...) of a block may stand in one tensor: `to_qkv` (`to_added_qkv`), rows q | k |
///   v one behind the other, as diffusers' `fuse_projections` leaves them; or `query_key_value`
///   (`added_query_key_value`), rows q | k | v head by head.
/// * q, k and v of one block may differ in dtype, and so may the norms of its q and k: they are cast to the wider one.
/// * `NAME_t` instead of `NAME`: stored transposed.
/// * The original repository's names and order of rows, alone or below `model.diffusion_model.`.
///
/// The checkpoint must outlive the result.
StoredFormOf flux2_stored_forms(const Flux2Config& config, const Checkpoint& checkpoint);

/// In which dtypes the model holds its tensors: as they are stored, but F32 for two norms that are read together and
/// differ. Throws as `Checkpoint::weight_dtype_of`.
DTypeOf flux2_dtypes(const Checkpoint& checkpoint, StoredFormOf stored_as);

}  // namespace lamina
