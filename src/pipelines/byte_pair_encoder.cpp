#include "pipelines/byte_pair_encoder.h"

#include <cstddef>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "pipelines/unicode_text.h"

namespace lamina {
namespace {

/// The printable character that stands for each byte in a vocabulary: itself for printable Latin-1, the others in order
/// from U+0100 on.
std::array<std::string, 256> byte_alphabet() {
  const auto is_printable = [](char32_t byte) { return (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD); };
  std::array<std::string, 256> alphabet;
  char32_t next_stand_in = 0x100;
  for (char32_t byte = 0; byte < alphabet.size(); ++byte)
    append_utf8(is_printable(byte) ? byte : next_stand_in++, alphabet[byte]);
  return alphabet;
}

/// The symbols of one piece as a doubly linked list, with the possible merges in a queue. Merges whose symbols have
/// changed since they were queued are skipped when they come up.
class MergingPiece {
 public:
  MergingPiece(const BytePairEncoder& encoder, std::vector<std::int32_t> ids) : encoder_(encoder) {
    symbols_.reserve(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) symbols_.push_back({ids[i], i - 1, i + 1});
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) propose(i);
  }

  void merge_all() {
    while (!queue_.empty()) {
      const Candidate candidate = queue_.top();
      queue_.pop();
      const std::optional<BytePairEncoder::Merge> merge = merge_at(candidate.left);
      if (merge && merge->rank == candidate.rank) join(candidate.left, merge->id);
    }
  }

  void append_to(std::vector<std::int32_t>& ids) const {
    for (std::size_t i = 0; i < symbols_.size(); i = symbols_[i].next) ids.push_back(symbols_[i].id);
  }

 private:
  static constexpr std::int32_t kJoinedToTheLeft = -1;

  struct Symbol {
    std::int32_t id;
    std::size_t previous;  ///< beyond the list for the first symbol
    std::size_t next;      ///< beyond the list for the last symbol
  };

  struct Candidate {
    std::int32_t rank;
    std::size_t left;
    bool operator>(const Candidate& other) const { return std::tie(rank, left) > std::tie(other.rank, other.left); }
  };

  std::optional<BytePairEncoder::Merge> merge_at(std::size_t left) const {
    if (left >= symbols_.size() || symbols_[left].next >= symbols_.size()) return std::nullopt;
    return encoder_.find(symbols_[left].id, symbols_[symbols_[left].next].id);
  }

  void propose(std::size_t left) {
    if (const auto merge = merge_at(left)) queue_.push({merge->rank, left});
  }

  void join(std::size_t left, std::int32_t id) {
    Symbol& symbol = symbols_[left];
    Symbol& right = symbols_[symbol.next];
    symbol.id = id;
    symbol.next = right.next;
    right.id = kJoinedToTheLeft;
    if (symbol.next < symbols_.size()) symbols_[symbol.next].previous = left;
    propose(symbol.previous);
    propose(left);
  }

  const BytePairEncoder& encoder_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue_;
};

std::int32_t require_token(const Vocabulary& vocabulary, const std::string& token, std::size_t rank,
                           std::string_view source) {
  const auto found = vocabulary.find(token);
  if (found == vocabulary.end())
    fail(ErrorCode::corrupt, "{}: merge {} needs the token '{}', which the vocabulary lacks", source, rank, token);
  return found->second;
}

}  // namespace

BytePairEncoder::BytePairEncoder(const Vocabulary& vocabulary, const std::vector<TokenPair>& merges,
                                 std::string_view source) {
  const std::array<std::string, 256> alphabet = byte_alphabet();
  for (std::size_t byte = 0; byte < alphabet.size(); ++byte) {
    const auto found = vocabulary.find(alphabet[byte]);
    if (found == vocabulary.end())
      fail(ErrorCode::incompatible, "{}: the vocabulary lacks the token '{}' of byte {:#04x}; all 256 are expected",
           source, alphabet[byte], byte);
    byte_ids_[byte] = found->second;
  }
  if (merges.size() > std::numeric_limits<std::int32_t>::max())
    fail(ErrorCode::incompatible, "{}: {} merges are too many", source, merges.size());
  merges_.reserve(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const std::uint64_t pair =
        key(require_token(vocabulary, left, rank, source), require_token(vocabulary, right, rank, source));
    const Merge merge{static_cast<std::int32_t>(rank), require_token(vocabulary, left + right, rank, source)};
    if (!merges_.emplace(pair, merge).second)
      fail(ErrorCode::corrupt, "{}: merge {} ('{}' and '{}') is listed twice", source, rank, left, right);
  }
}

void BytePairEncoder::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  std::vector<std::int32_t> bytes;
  bytes.reserve(piece.size());
  for (const char byte : piece) bytes.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  MergingPiece merging(*this, std::move(bytes));
  merging.merge_all();
  merging.append_to(ids);
}

std::optional<BytePairEncoder::Merge> BytePairEncoder::find(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(key(left, right));
  if (found == merges_.end()) return std::nullopt;
  return found->second;
}

std::uint64_t BytePairEncoder::key(std::int32_t left, std::int32_t right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
}

}  // namespace lamina
