#include "models/flux2/flux2_activations.h"

#include "base/error.h"

namespace lamina {
namespace {

std::size_t size_of_group(const Communicator* group) {
  return group == nullptr ? 1 : group->size();
}

SequenceShards shards_of(std::int64_t tokens, const Communicator* group) {
  return {tokens, size_of_group(group), group == nullptr ? 0 : group->rank()};
}

}  // namespace

Flux2Activations::Flux2Activations(const Flux2Transformer& transformer, std::int64_t tokens, DType dtype,
                                   const ModelGroups& groups, Arena& arena)
    : groups_(groups), shards_(shards_of(tokens, groups.sequence)) {
  const Flux2Config& config = transformer.config();
  const std::int64_t degree = transformer.tensor_parallel().degree;
  expects(degree == static_cast<std::int64_t>(size_of_group(groups.tensor)),
          "a FLUX.2 transformer of tensor-parallel degree {} in a group of {}", degree, size_of_group(groups.tensor));
  rows_.width_ = config.width();
  rows_.share_ = config.width() / degree;
  rows_.mlp_share_ = config.mlp_width / degree;
  rows_.head_dim_ = config.head_dim;
  rows_.columns_ = arena.take(dtype, {shards_.chunk(), 3 * rows_.share_ + rows_.width_ + 2 * rows_.mlp_share_});
  if (degree > 1) rows_.terms_ = arena.take(dtype, {shards_.chunk(), rows_.width_});
  if (groups.sequence != nullptr) exchange_.emplace(*groups.sequence, shards_, rows_.share_, dtype, arena);
}

Flux2Activations::Rows Flux2Activations::rows(std::int64_t begin, std::int64_t end) const {
  Rows result = rows_;
  result.columns_ = rows_.columns_.slice(0, begin, end);
  if (result.terms_) result.terms_ = rows_.terms_->slice(0, begin, end);
  return result;
}

}  // namespace lamina
