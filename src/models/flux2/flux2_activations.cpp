#include "models/flux2/flux2_activations.h"

namespace lamina {

Flux2Activations::Flux2Activations(const Flux2Config& config, std::int64_t tokens, DType dtype, Arena& arena)
    : width_(config.width()),
      mlp_width_(config.mlp_width),
      head_dim_(config.head_dim),
      columns_(arena.take(dtype, {tokens, 4 * width_ + 2 * mlp_width_})) {}

Flux2Activations Flux2Activations::rows(std::int64_t begin, std::int64_t end) const {
  Flux2Activations result = *this;
  result.columns_ = columns_.slice(0, begin, end);
  return result;
}

}  // namespace lamina
