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
    : stored_(std::move(stored)),
      local_(stored_),
      line_bytes_(stored_.size_bytes()),
      local_line_bytes_(line_bytes_),
      runs_{{0, line_bytes_}} {
  parallel.validate();
  if (rule.cut == ShardRule::Cut::replicated) return;
  const std::size_t axis = rule.cut == ShardRule::Cut::rows ? 0 : 1;
  check_groups(stored_, rule, axis, parallel.degree);
  if (parallel.degree == 1) return;

  const std::span<const std::int64_t> extents = stored_.shape.extents();
  const std::size_t element_bytes = product(extents.subspan(axis + 1)) * size_of(stored_.dtype);
  local_.shape = with_extent(stored_.shape, axis, stored_.shape[axis] / parallel.degree);
  line_bytes_ = product(extents.subspan(axis, 1)) * element_bytes;
  local_line_bytes_ = line_bytes_ / static_cast<std::size_t>(parallel.degree);
  runs_.clear();
  std::int64_t begin = 0;
  for (const std::int64_t group : rule.groups) {
    const std::int64_t share = group / parallel.degree;
    if (share > 0)
      runs_.push_back({static_cast<std::size_t>(begin + parallel.rank * share) * element_bytes,
                       static_cast<std::size_t>(share) * element_bytes});
    begin += group;
  }
}

TensorSlice::Run TensorSlice::run_at(std::size_t local_offset) const {
  expects(local_offset < local_.size_bytes(), "byte {} of {}", local_offset, to_string(local_));
  std::size_t within = local_offset % local_line_bytes_;
  auto run = runs_.begin();
  for (; within >= run->size; ++run) within -= run->size;
  return {local_offset / local_line_bytes_ * line_bytes_ + run->stored_offset + within, run->size - within};
}

void TensorSlice::copy(const ConstTensorView& whole, std::byte* destination) const {
  expects(whole.dtype() == stored_.dtype && whole.shape() == stored_.shape && whole.is_contiguous(),
          "tensor {} is cut out of a view of {} {}", to_string(stored_), to_string(whole.dtype()),
          to_string(whole.shape()));
  for (std::size_t at = 0; at < local_.size_bytes();) {
    const Run run = run_at(at);
    std::memcpy(destination + at, whole.data() + run.stored_offset, run.size);
    at += run.size;
  }
}

}  // namespace lamina
