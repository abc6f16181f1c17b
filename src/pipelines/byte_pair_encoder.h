#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lamina {

/// Token texts, in the byte-level alphabet, to ids.
using Vocabulary = std::unordered_map<std::string, std::int32_t>;

/// The texts of two neighbours.
using TokenPair = std::pair<std::string, std::string>;

/// Byte-level byte pair encoding of one piece of text: its bytes are joined pair by pair, lowest rank first, leftmost
/// first among equals. Immutable after construction; thread safe.
/// Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", and its published vocabularies.
class BytePairEncoder {
 public:
  /// `merges` in order of rank. Throws corrupt naming `source` and the merge where a merge or its result is not in the
  /// vocabulary, and incompatible where the vocabulary lacks one of the 256 bytes.
  BytePairEncoder(const Vocabulary& vocabulary, const std::vector<TokenPair>& merges, std::string_view source);

  /// Appends the ids of `piece`, in O(n log n) of its length.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

  /// What two neighbours join to.
  struct Merge {
    std::int32_t rank;
    std::int32_t id;
  };
  std::optional<Merge> find(std::int32_t left, std::int32_t right) const;

 private:
  static std::uint64_t key(std::int32_t left, std::int32_t right);

  std::array<std::int32_t, 256> byte_ids_{};
  std::unordered_map<std::uint64_t, Merge> merges_;
};

}  // namespace lamina
