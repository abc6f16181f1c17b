#include "comm/communicator.h"

#include <utility>

#include "base/error.h"

namespace lamina {

std::string_view to_string(Collective::Kind kind) noexcept {
  switch (kind) {
    case Collective::Kind::all_gather: return "all-gather";
    case Collective::Kind::all_to_all: return "all-to-all";
    case Collective::Kind::all_reduce: return "all-reduce";
    case Collective::Kind::broadcast: return "broadcast";
    case Collective::Kind::barrier: return "barrier";
  }
  return "collective";
}

std::string describe(const Collective& collective) {
  if (collective.kind == Collective::Kind::all_reduce)
    return fmt::format("{} ({})", to_string(collective.kind), to_string(collective.dtype));
  if (collective.kind == Collective::Kind::broadcast)
    return fmt::format("{} from rank {}", to_string(collective.kind), collective.root);
  return std::string(to_string(collective.kind));
}

Communicator::Communicator(std::string name, std::size_t rank, std::size_t size)
    : name_(std::move(name)), rank_(rank), size_(size) {
  expects(rank < size, "rank {} in group '{}' of {}", rank, name_, size);
}

void Communicator::all_gather_async(std::byte* data, std::size_t piece_bytes, Stream& stream) {
  const Collective collective{.kind = Collective::Kind::all_gather, .target = data, .piece_bytes = piece_bytes};
  std::byte* own = data + rank_ * piece_bytes;
  Access access{to_string(collective.kind), {{own, piece_bytes}}, {}};
  if (rank_ > 0) access.writes.push_back({data, rank_ * piece_bytes});
  if (rank_ + 1 < size_) access.writes.push_back({own + piece_bytes, (size_ - rank_ - 1) * piece_bytes});
  enqueue(collective, access, stream);
}

void Communicator::all_to_all_async(const std::byte* source, std::byte* destination, std::size_t piece_bytes,
                                    Stream& stream) {
  const std::size_t size_bytes = size_ * piece_bytes;
  expects(source + size_bytes <= destination || destination + size_bytes <= source,
          "an all-to-all of group '{}' in place", name_);
  const Collective collective{
      .kind = Collective::Kind::all_to_all, .target = destination, .source = source, .piece_bytes = piece_bytes};
  enqueue(collective, {to_string(collective.kind), {{source, size_bytes}}, {{destination, size_bytes}}}, stream);
}

void Communicator::all_reduce_async(const TensorView& tensor, Stream& stream) {
  expects(tensor.is_contiguous() && (tensor.dtype() == DType::f32 || tensor.dtype() == DType::bf16),
          "an all-reduce of group '{}' takes a contiguous tensor of f32 or bf16", name_);
  const Collective collective{.kind = Collective::Kind::all_reduce,
                              .target = tensor.data(),
                              .piece_bytes = tensor.span_bytes(),
                              .dtype = tensor.dtype()};
  enqueue(collective, {to_string(collective.kind), {range_of(tensor)}, {range_of(tensor)}}, stream);
}

void Communicator::broadcast_async(std::byte* data, std::size_t size_bytes, std::size_t root, Stream& stream) {
  expects(root < size_, "a broadcast from rank {} in group '{}' of {}", root, name_, size_);
  const Collective collective{
      .kind = Collective::Kind::broadcast, .target = data, .piece_bytes = size_bytes, .root = root};
  Access access{to_string(collective.kind), {}, {}};
  (root == rank_ ? access.reads : access.writes).push_back({data, size_bytes});
  enqueue(collective, access, stream);
}

void Communicator::barrier_async(Stream& stream) {
  const Collective collective{.kind = Collective::Kind::barrier};
  enqueue(collective, {to_string(collective.kind), {}, {}}, stream);
}

void Communicator::enqueue(const Collective& collective, const Access& access, Stream& stream) {
  check();
  stream.announce(access);
  do_enqueue(collective, access, stream);
}

}  // namespace lamina
