#include "models/head_exchange.h"

#include "base/error.h"
#include "ops/copy.h"

namespace lamina {

HeadExchange::HeadExchange(Communicator& group, const SequenceShards& shards, std::int64_t width, DType dtype,
                           Arena& arena)
    : group_(group), ranks_(static_cast<std::int64_t>(group.size())), tokens_(shards.tokens()) {
  expects(shards.all().size() == group.size() && width % ranks_ == 0,
          "{} shards of a sequence and {} features of heads for the {} ranks of group '{}'", shards.all().size(), width,
          ranks_, group.name());
  const std::int64_t share = width / ranks_;
  const Shape attended{ranks_, shards.chunk(), share};
  outgoing_ = arena.take(dtype, {ranks_, shards.chunk(), 3, share});
  incoming_ = arena.take(dtype, outgoing_.shape());
  attended_ = TensorView(outgoing_.data(), dtype, attended);
  returned_ = TensorView(incoming_.data(), dtype, attended);
}

TensorView HeadExchange::to_heads(const ConstTensorView& qkv, ops::OpContext& context) const {
  const std::int64_t share = incoming_.size(3);
  if (qkv.size(0) > 0) {
    const ConstTensorView by_rank = qkv.split_last(ranks_ * share).split_last(share).permute({2, 0, 1, 3});
    ops::copy(context, by_rank, outgoing_.slice(1, 0, qkv.size(0)));
  }
  exchange(outgoing_, incoming_, context);
  return incoming_.reshape({ranks_ * incoming_.size(1), 3 * share}).slice(0, 0, tokens_);
}

TensorView HeadExchange::attended() const {
  return attended_.reshape({ranks_ * attended_.size(1), attended_.size(2)}).slice(0, 0, tokens_);
}

void HeadExchange::to_tokens(const TensorView& output, ops::OpContext& context) const {
  exchange(attended_, returned_, context);
  if (output.size(0) == 0) return;
  ops::copy(context, returned_.slice(1, 0, output.size(0)), output.split_last(returned_.size(2)).permute({1, 0, 2}));
}

void HeadExchange::exchange(const TensorView& from, const TensorView& to, ops::OpContext& context) const {
  if (context.is_planning()) return;
  group_.all_to_all_async(from.data(), to.data(), from.span_bytes() / group_.size(), context.stream());
}

}  // namespace lamina
