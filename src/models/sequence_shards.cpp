#include "models/sequence_shards.h"

#include <algorithm>

#include "base/error.h"

namespace lamina {

TokenRange TokenRange::within(const TokenRange& other) const {
  const std::int64_t first = std::clamp(other.begin, begin, end);
  return {first, std::clamp(other.end, first, end)};
}

SequenceShards::SequenceShards(std::int64_t tokens, std::size_t ranks, std::size_t rank)
    : tokens_(tokens), chunk_(0), rank_(rank) {
  expects(tokens > 0 && rank < ranks, "rank {} of {} has a part of {} tokens", rank, ranks, tokens);
  const auto count = static_cast<std::int64_t>(ranks);
  chunk_ = (tokens + count - 1) / count;
  for (std::int64_t i = 0; i < count; ++i)
    ranges_.push_back({std::min(i * chunk_, tokens), std::min((i + 1) * chunk_, tokens)});
}

}  // namespace lamina
