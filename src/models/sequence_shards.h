#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lamina {

/// Tokens [begin, end) of a sequence.
struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const noexcept { return end - begin; }
  bool empty() const noexcept { return begin == end; }
  /// Those that are in `other`, too: a part of this range, maybe empty.
  TokenRange within(const TokenRange& other) const;
  bool operator==(const TokenRange&) const = default;
};

/// How the ranks of a sequence-parallel group divide a sequence: in chunks of equal length, in the order of the ranks.
/// The last chunks may be short or empty, so that padding lies behind the last token only.
class SequenceShards {
 public:
  SequenceShards(std::int64_t tokens, std::size_t ranks, std::size_t rank);

  std::int64_t tokens() const noexcept { return tokens_; }
  /// Tokens of a rank with padding.
  std::int64_t chunk() const noexcept { return chunk_; }
  /// Tokens of all ranks with padding.
  std::int64_t padded_tokens() const noexcept { return chunk_ * static_cast<std::int64_t>(ranges_.size()); }

  const TokenRange& own() const { return ranges_[rank_]; }
  /// By rank.
  const std::vector<TokenRange>& all() const noexcept { return ranges_; }

 private:
  std::int64_t tokens_;
  std::int64_t chunk_;
  std::size_t rank_;
  std::vector<TokenRange> ranges_;
};

}  // namespace lamina
