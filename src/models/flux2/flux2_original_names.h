#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weights/weight_binding.h"

namespace lamina {

/// Where the original repository's checkpoints have a tensor of the transformer.
struct Flux2OriginalName {
  std::string tensor;  ///< "double_blocks.0.img_attn.qkv.weight"
  int part = 0;        ///< of `parts` equal ones of its rows, this one
  int parts = 1;
  bool is_swapped = false;  ///< the two halves of its rows change places

  /// Its rows for a tensor of so many; nullopt: all rows in order.
  std::optional<RowRuns> rows(std::int64_t count) const;
};

/// nullopt for names that are none of a FLUX.2 transformer's.
/// Source: diffusers, convert_flux2_to_diffusers.py.
std::optional<Flux2OriginalName> flux2_original_name(std::string_view name);

}  // namespace lamina
