#include "comm/mpi/blocks.h"

#include <cstring>

#include "comm/local/ordered_sum.h"

namespace lamina::mpi {
namespace {

using Kind = Collective::Kind;

bool is_in(const GroupPart& part, std::size_t rank) {
  return rank >= part.first && rank < part.first + part.count;
}

/// What a rank has for rank `to`. But for an all-to-all it is the same for all.
const std::byte* block_of(const Collective& collective, std::size_t from, std::size_t to) {
  switch (collective.kind) {
    case Kind::all_gather: return collective.target + from * collective.piece_bytes;
    case Kind::all_to_all: return collective.source + to * collective.piece_bytes;
    default: return collective.target;
  }
}

/// In messages, and in memory that came, a rank's blocks lie one behind the other: one for each receiver in an
/// all-to-all, else one for all of them, or none where only the root has one.
std::size_t blocks_from(const Collective& collective, std::size_t from, const GroupPart& receivers) {
  switch (collective.kind) {
    case Kind::all_gather:
    case Kind::all_reduce: return 1;
    case Kind::all_to_all: return receivers.count;
    case Kind::broadcast: return from == collective.root ? 1 : 0;
    case Kind::barrier: return 0;
  }
  return 0;
}

Bytes pack(const GroupPart& own, LocalCollectives local, const GroupPart& receivers) {
  Bytes bytes;
  for (std::size_t i = 0; i < local.size(); ++i) {
    const std::size_t from = own.first + i;
    const std::size_t blocks = blocks_from(local[i], from, receivers);
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::byte* data = block_of(local[i], from, receivers.first + block);
      bytes.insert(bytes.end(), data, data + local[i].piece_bytes);
    }
  }
  return bytes;
}

/// Where everybody's blocks for the ranks of this process are.
class BlockTable {
 public:
  BlockTable(const GroupAddress& group, LocalCollectives local, const std::vector<Bytes>& incoming)
      : group_(group), local_(local), incoming_(incoming) {}

  const std::byte* find(std::size_t from, std::size_t to) const {
    if (is_in(group_.own, from)) return block_of(local_[from - group_.own.first], from, to);
    std::size_t part = 0;
    while (!is_in(group_.others[part], from)) ++part;
    return incoming_[part].data() + index_in_message(part, from, to) * local_.front().piece_bytes;
  }

 private:
  std::size_t index_in_message(std::size_t part, std::size_t from, std::size_t to) const {
    std::size_t index = 0;
    for (std::size_t before = group_.others[part].first; before < from; ++before)
      index += blocks_from(local_.front(), before, group_.own);
    return local_.front().kind == Kind::all_to_all ? index + to - group_.own.first : index;
  }

  const GroupAddress& group_;
  LocalCollectives local_;
  const std::vector<Bytes>& incoming_;
};

void copy(std::byte* to, const std::byte* from, std::size_t size_bytes) {
  if (to != from && size_bytes > 0) std::memcpy(to, from, size_bytes);
}

void deliver_pieces(const GroupAddress& group, LocalCollectives local, const BlockTable& blocks) {
  const std::size_t piece_bytes = local.front().piece_bytes;
  const std::size_t ranks = group.size();
  for (std::size_t i = 0; i < local.size(); ++i)
    for (std::size_t from = 0; from < ranks; ++from)
      copy(local[i].target + from * piece_bytes, blocks.find(from, group.own.first + i), piece_bytes);
}

void deliver_sums(const GroupAddress& group, LocalCollectives local, const BlockTable& blocks) {
  std::vector<const std::byte*> addends;
  std::vector<std::byte*> sums;
  const std::size_t ranks = group.size();
  for (std::size_t from = 0; from < ranks; ++from) addends.push_back(blocks.find(from, group.own.first));
  for (const Collective& collective : local) sums.push_back(collective.target);
  local::sum_in_order(local.front().dtype, local.front().piece_bytes, addends, sums);
}

}  // namespace

std::vector<std::shared_ptr<const Bytes>> blocks_for_others(const GroupAddress& group, LocalCollectives local) {
  std::vector<std::shared_ptr<const Bytes>> blocks;
  for (const GroupPart& part : group.others)
    blocks.push_back(local.front().kind == Kind::all_to_all || blocks.empty()
                         ? std::make_shared<const Bytes>(pack(group.own, local, part))
                         : blocks.front());
  return blocks;
}

void deliver(const GroupAddress& group, LocalCollectives local, const std::vector<Bytes>& incoming) {
  const BlockTable blocks(group, local, incoming);
  switch (local.front().kind) {
    case Kind::all_gather:
    case Kind::all_to_all: return deliver_pieces(group, local, blocks);
    case Kind::all_reduce: return deliver_sums(group, local, blocks);
    case Kind::broadcast:
      for (const Collective& collective : local)
        copy(collective.target, blocks.find(collective.root, 0), collective.piece_bytes);
      return;
    case Kind::barrier: return;
  }
}

}  // namespace lamina::mpi
