#pragma once

#include "models/flux2/flux2_config.h"
#include "tensor/arena.h"

namespace lamina {

/// Scratch activations of a forward pass, a row for each token of the joint sequence. Forwards that run one after
/// the other on one stream share them: nothing in here outlives a block. A view: the memory is the arena's.
///
/// With D = width and M = mlp_width, the columns of a row are
///
///     | q (D) | k (D) | v (D) | hidden (D) | gate (M) | up (M) |
///
/// so that projections read and write adjacent columns and nothing is ever copied together:
/// * `hidden` holds the normalised input of the projections, and then what attention makes of them;
/// * silu(gate) * up lands in `gate`, beside the attention's output, as a single block's last projection wants it;
/// * `projected` is what comes back to the residual stream, in the place of q, which is dead by then.
class Flux2Activations {
 public:
  Flux2Activations(const Flux2Config& config, std::int64_t tokens, DType dtype, Arena& arena);

  std::int64_t tokens() const { return columns_.size(0); }
  /// The part of tokens [begin, end).
  Flux2Activations rows(std::int64_t begin, std::int64_t end) const;

  TensorView qkv() const { return columns(0, 3 * width_); }
  /// [tokens, heads, head_dim]
  TensorView q_heads() const { return heads(0); }
  TensorView k_heads() const { return heads(1); }
  TensorView v_heads() const { return heads(2); }
  TensorView hidden() const { return columns(3 * width_, width_); }
  TensorView hidden_heads() const { return heads(3); }
  TensorView gate() const { return columns(4 * width_, mlp_width_); }
  TensorView up() const { return columns(4 * width_ + mlp_width_, mlp_width_); }
  TensorView gate_up() const { return columns(4 * width_, 2 * mlp_width_); }
  TensorView hidden_gate() const { return columns(3 * width_, width_ + mlp_width_); }
  TensorView projected() const { return columns(0, width_); }

 private:
  TensorView columns(std::int64_t begin, std::int64_t count) const { return columns_.slice(1, begin, begin + count); }
  TensorView heads(std::int64_t group) const { return columns(group * width_, width_).split_last(head_dim_); }

  std::int64_t width_;
  std::int64_t mlp_width_;
  std::int64_t head_dim_;
  TensorView columns_;
};

}  // namespace lamina
