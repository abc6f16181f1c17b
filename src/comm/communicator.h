#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "device/access.h"
#include "device/stream.h"
#include "lamina/error.h"
#include "tensor/tensor_view.h"

namespace lamina {

/// One collective as a rank enters it.
struct Collective {
  enum class Kind {
    all_gather,  ///< in place: `target` holds a piece of every rank, in order
    all_to_all,  ///< piece r of `source` goes to rank r; piece r of `target` comes from rank r
    all_reduce,  ///< in place: sums in f32, in the order of the ranks (by NCCL in an order of its own)
    broadcast,   ///< in place, from rank `root`
    barrier,
  };
  Kind kind = Kind::barrier;
  std::byte* target = nullptr;
  const std::byte* source = nullptr;  ///< of an all-to-all
  std::size_t piece_bytes = 0;        ///< of one rank's piece; all bytes of an all-reduce or a broadcast
  DType dtype = DType::u8;            ///< of an all-reduce
  std::size_t root = 0;
};

/// "all-gather", as messages, traces and the CPU's virtual costs call it.
std::string_view to_string(Collective::Kind kind) noexcept;
/// "broadcast from rank 1": what besides size must be the same on all ranks.
std::string describe(const Collective& collective);

/// One rank's end of a group whose ranks exchange data. Every rank enters the same collectives in the same order. Each
/// is work of the given stream, in the stream's order, and is over on a rank when that rank's data has arrived and its
/// own is no longer needed. All collectives of one communicator are enqueued by one thread and run one behind the
/// other: on one stream, or on several with events between them.
///
/// A group fails as a whole and for good: the first reason ends every wait and is what all ranks throw, as the error of
/// the streams that wait, and from `check` and every later call. Destroyed when its collectives are over.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// What the group is for ("weights"), in messages.
  const std::string& name() const noexcept { return name_; }
  std::size_t rank() const noexcept { return rank_; }
  std::size_t size() const noexcept { return size_; }

  /// `data` is [size, piece_bytes]; piece `rank` is there, the others are filled in.
  void all_gather_async(std::byte* data, std::size_t piece_bytes, Stream& stream);
  /// Both are [size, piece_bytes] and do not overlap.
  void all_to_all_async(const std::byte* source, std::byte* destination, std::size_t piece_bytes, Stream& stream);
  /// A contiguous tensor of f32 or bf16 becomes the sum over all ranks; the same bytes on all ranks. Rounded once, but
  /// by NCCL, see there, more than once where there are more than two ranks.
  void all_reduce_async(const TensorView& tensor, Stream& stream);
  void broadcast_async(std::byte* data, std::size_t size_bytes, std::size_t root, Stream& stream);
  void barrier_async(Stream& stream);

  /// Ends the group on all ranks, unless it has ended: `reason` is what they report. Any thread may call it at any
  /// time.
  virtual void abort(const Error& reason) noexcept = 0;
  /// Throws the reason for which the group ended, if it has. Any thread may call it.
  virtual void check() const = 0;

 protected:
  Communicator(std::string name, std::size_t rank, std::size_t size);

 private:
  void enqueue(const Collective& collective, const Access& access, Stream& stream);
  /// `access` was announced.
  virtual void do_enqueue(const Collective& collective, const Access& access, Stream& stream) = 0;

  std::string name_;
  std::size_t rank_;
  std::size_t size_;
};

}  // namespace lamina
