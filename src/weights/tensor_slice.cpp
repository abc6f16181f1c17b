#include "weights/tensor_slice.h"

#include <fmt/ranges.h>

#include <cstring>
#include <span>
#include <utility>

#include "base/error.h"

namespace lamina {
namespace {

void check_groups(const TensorSpec& tensor, const ShardRule& rule, std::size_t axis, std::int64_t degree) {
  if (tensor.shape.rank() <= axis)
    fail(ErrorCode::incompatible, "tensor {} cannot be cut for tensor parallelism: it has no axis {}",
         to_string(tensor), axis);
  std::int64_t rest = tensor.shape[axis];
  for (const std::int64_t group : rule.groups) {
    if (group < 0 || group > rest) {
      rest = -1;
      break;
    }
    rest -= group;
  }
  if (rest != 0)
    fail(ErrorCode::incompatible, "tensor {} cannot be cut for tensor parallelism: axis {} is not made up of [{}]",
         to_string(tensor), axis, fmt::join(rule.groups, ", "));
  for (const std::int64_t group : rule.groups)
    if (group % degree != 0)
      fail(ErrorCode::incompatible,
           "tensor {} cannot be cut for tensor parallelism of degree {}: of the groups [{}] of "
           "axis {}, {} does not divide by it",
           to_string(tensor), degree, fmt::join(rule.groups, ", "), axis, group);
}

Shape with_extent(const Shape& shape, std::size_t axis, std::int64_t extent) {
  std::vector<std::int64_t> extents(shape.extents().begin(), shape.extents().end());
  extents[axis] = extent;
  return Shape(std::span<const std::int64_t>(extents));
}

std::size_t product(std::span<const std::int64_t> extents) {
  std::size_t result = 1;
  for (const std::int64_t extent : extents) result *= static_cast<std::size_t>(extent);
  return result;
}

}  // namespace

void TensorParallel::validate() const {
  expects(rank >= 0 && rank < degree, "there is no rank {} in a tensor-parallel group of {}", rank, degree);
}

TensorSlice::TensorSlice(TensorSpec stored, const ShardRule& rule, const TensorParallel& parallel)
    : stored_(std::move(stored)), local_(stored_), line_bytes_(stored_.size_bytes()), runs_{{0, line_bytes_}} {
  parallel.validate();
  if (rule.cut == ShardRule::Cut::replicated) return;
  const std::size_t axis = rule.cut == ShardRule::Cut::rows ? 0 : 1;
  check_groups(stored_, rule, axis, parallel.degree);
  if (parallel.degree == 1) return;

  const std::span<const std::int64_t> extents = stored_.shape.extents();
  const std::size_t element_bytes = product(extents.subspan(axis + 1)) * size_of(stored_.dtype);
  local_.shape = with_extent(stored_.shape, axis, stored_.shape[axis] / parallel.degree);
  lines_ = product(extents.first(axis));
  line_bytes_ = product(extents.subspan(axis, 1)) * element_bytes;
  runs_.clear();
  std::int64_t begin = 0;
  for (const std::int64_t group : rule.groups) {
    const std::int64_t share = group / parallel.degree;
    runs_.push_back({static_cast<std::size_t>(begin + parallel.rank * share) * element_bytes,
                     static_cast<std::size_t>(share) * element_bytes});
    begin += group;
  }
}

void TensorSlice::copy(const ConstTensorView& whole, std::byte* destination) const {
  expects(whole.dtype() == stored_.dtype && whole.shape() == stored_.shape && whole.is_contiguous(),
          "tensor {} is cut out of a view of {} {}", to_string(stored_), to_string(whole.dtype()),
          to_string(whole.shape()));
  const std::byte* line = whole.data();
  for (std::size_t i = 0; i < lines_; ++i, line += line_bytes_) {
    for (const Run& run : runs_) {
      if (run.size > 0) std::memcpy(destination, line + run.offset, run.size);
      destination += run.size;
    }
  }
}

}  // namespace lamina
