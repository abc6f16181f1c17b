#pragma once

#include <cstdint>
#include <optional>

#include "models/flux2/flux2_transformer.h"
#include "models/head_exchange.h"
#include "models/model_groups.h"
#include "models/sequence_shards.h"
#include "tensor/arena.h"

namespace lamina {

/// Scratch activations of a forward pass, a row for each of the rank's tokens of the joint sequence. Forwards that run
/// one after the other on one stream share them: nothing in here outlives a block. A view: the memory is the arena's.
///
/// With D = width, d and m the rank's share of the features of heads and of the feed-forward (all of them without
/// tensor parallelism: d = D), the columns of a row are
///
///     | q (d) | k (d) | v (d) | hidden (D) | gate (m) | up (m) |
///                             |  attended ^|
///
/// so that projections read and write adjacent columns and nothing is ever copied together:
/// * `hidden` holds the normalised input of the projections;
/// * `attended`, the last d columns of `hidden`, is what attention makes of them;
/// * silu(gate) * up lands in `gate`, beside the attention's output, as a single block's last projection wants it;
/// * `projected` is what comes back to the residual stream. It takes the place of q, which is dead by then; with tensor
///   parallelism it is the rank's term of a sum over ranks, and lies contiguous, outside the columns.
class Flux2Activations {
 public:
  /// Some rows of them.
  class Rows {
   public:
    TensorView qkv() const { return columns(0, 3 * share_); }
    /// [tokens, heads, head_dim], those of the rank.
    TensorView q_heads() const { return heads(0); }
    TensorView k_heads() const { return heads(1); }
    TensorView v_heads() const { return heads(2); }
    TensorView hidden() const { return columns(3 * share_, width_); }
    TensorView attended() const { return columns(2 * share_ + width_, share_); }
    TensorView attended_heads() const { return attended().split_last(head_dim_); }
    TensorView gate() const { return columns(mlp_begin(), mlp_share_); }
    TensorView up() const { return columns(mlp_begin() + mlp_share_, mlp_share_); }
    TensorView gate_up() const { return columns(mlp_begin(), 2 * mlp_share_); }
    TensorView attended_gate() const { return columns(2 * share_ + width_, share_ + mlp_share_); }
    TensorView projected() const { return terms_ ? *terms_ : columns(0, width_); }

   private:
    friend class Flux2Activations;

    TensorView columns(std::int64_t begin, std::int64_t count) const { return columns_.slice(1, begin, begin + count); }
    TensorView heads(std::int64_t group) const { return columns(group * share_, share_).split_last(head_dim_); }
    std::int64_t mlp_begin() const { return 3 * share_ + width_; }

    std::int64_t width_ = 0;
    std::int64_t share_ = 0;
    std::int64_t mlp_share_ = 0;
    std::int64_t head_dim_ = 0;
    TensorView columns_;
    std::optional<TensorView> terms_;
  };

  /// For sequences of `tokens`, which the ranks of `groups` compute together. Throws internal unless the transformer
  /// is that of a rank of the tensor-parallel group.
  Flux2Activations(const Flux2Transformer& transformer, std::int64_t tokens, DType dtype, const ModelGroups& groups,
                   Arena& arena);

  /// The rank's part of the sequence. Its tokens and padding are `shards().chunk()` rows.
  const SequenceShards& shards() const noexcept { return shards_; }
  Rows rows(std::int64_t begin, std::int64_t end) const;

  const ModelGroups& groups() const noexcept { return groups_; }
  /// Heads for tokens, with sequence parallelism.
  const std::optional<HeadExchange>& exchange() const noexcept { return exchange_; }

 private:
  ModelGroups groups_;
  SequenceShards shards_;
  Rows rows_;
  std::optional<HeadExchange> exchange_;
};

}  // namespace lamina
