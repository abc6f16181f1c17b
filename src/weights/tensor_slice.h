#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/tensor_spec.h"
#include "tensor/tensor_view.h"

namespace lamina {

/// One rank of a tensor-parallel group. Of degree 1, it has all of the weights.
struct TensorParallel {
  std::int64_t degree = 1;
  std::int64_t rank = 0;

  /// Throws internal unless 0 <= rank < degree.
  void validate() const;
};

/// How a tensor is cut for the ranks of a tensor-parallel group: not at all, or along one axis. The cut axis is packed
/// of groups (q | k | v, gate | up). Each group is cut evenly, and a rank's part is its share of every group, in order.
/// A linear layer stores [out, in]: one that is parallel in its outputs is cut in rows, one that is parallel in its
/// inputs in columns.
struct ShardRule {
  enum class Cut { replicated, rows, columns };

  Cut cut = Cut::replicated;
  std::vector<std::int64_t> groups;  ///< extents along the cut axis, which they make up; none where replicated
};

/// One rank's part of a tensor of the checkpoint: what it is, and where its bytes lie. Immutable.
class TensorSlice {
 public:
  /// Throws incompatible naming the tensor, the groups and the degree where the groups do not make up the axis, or do
  /// not divide by the degree.
  TensorSlice(TensorSpec stored, const ShardRule& rule, const TensorParallel& parallel);

  /// The whole tensor, as the checkpoint has it.
  const TensorSpec& stored() const noexcept { return stored_; }
  /// The part, under the same name.
  const TensorSpec& local() const noexcept { return local_; }

  /// Bytes that are adjacent in the part as well as in the stored tensor.
  struct Run {
    std::size_t stored_offset = 0;
    std::size_t size = 0;
    bool operator==(const Run&) const = default;
  };
  /// From the part's byte `local_offset` to the end of its run. Offsets in the stored tensor ascend with those in the
  /// part.
  Run run_at(std::size_t local_offset) const;

  /// Copies the part out of the whole tensor, whose bytes may be unaligned, to `local().size_bytes()` contiguous bytes.
  void copy(const ConstTensorView& whole, std::byte* destination) const;

  bool operator==(const TensorSlice&) const = default;

 private:
  TensorSpec stored_;
  TensorSpec local_;
  // The stored bytes are lines that are cut alike: the whole tensor, or its rows where columns are cut.
  std::size_t line_bytes_ = 0;
  std::size_t local_line_bytes_ = 0;
  std::vector<Run> runs_;  // of the first line; none is empty
};

}  // namespace lamina
