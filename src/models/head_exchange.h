#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "models/sequence_shards.h"
#include "ops/op_context.h"
#include "tensor/arena.h"

namespace lamina {

/// Around an attention whose tokens are divided over ranks: each rank gives its tokens of all heads for all tokens of
/// its heads, and back. Padding of the last chunks is sent, whatever it holds, and never read. One at a time on a
/// stream; results are its own memory, which is the arena's. Source: DeepSpeed-Ulysses, arXiv 2309.14509.
class HeadExchange {
 public:
  /// The ranks of `group` have `shards`; `width` features of heads are divided over them. The group outlives it.
  HeadExchange(Communicator& group, const SequenceShards& shards, std::int64_t width, DType dtype, Arena& arena);

  /// `qkv` [tokens, 3 width] of this rank (or of another one when planning) becomes q | k | v of all tokens:
  /// [all tokens, 3 width / ranks], until `to_tokens`.
  TensorView to_heads(const ConstTensorView& qkv, ops::OpContext& context) const;
  /// Where the attention of this rank's heads goes behind `to_heads`: [all tokens, width / ranks].
  TensorView attended() const;
  /// What lies in `attended` on all ranks becomes `output` [tokens, width] of this rank.
  void to_tokens(const TensorView& output, ops::OpContext& context) const;

 private:
  void exchange(const TensorView& from, const TensorView& to, ops::OpContext& context) const;

  Communicator& group_;
  std::int64_t ranks_;
  std::int64_t tokens_;  ///< of all ranks
  // [ranks, chunk, 3, width / ranks]: of other ranks, or for them, piece by piece.
  TensorView outgoing_;
  TensorView incoming_;
  // [ranks, chunk, width / ranks], in the same memory: when attention runs nobody needs what went out, and behind it
  // nobody needs what came in.
  TensorView attended_;
  TensorView returned_;
};

}  // namespace lamina
