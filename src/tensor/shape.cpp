#include "tensor/shape.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace lamina {

Shape::Shape(std::initializer_list<std::int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const std::int64_t> extents) : rank_(extents.size()) {
  if (extents.size() > kMaxRank)
    fail(ErrorCode::invalid_argument, "a tensor of rank {}; at most {} is supported", extents.size(), kMaxRank);
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    if (extents[axis] < 0) fail(ErrorCode::invalid_argument, "negative extent {} on axis {}", extents[axis], axis);
    extents_[axis] = extents[axis];
  }
}

std::optional<std::int64_t> Shape::checked_elements() const noexcept {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t extent : extents()) {
    empty = empty || extent == 0;
    if (extent > std::numeric_limits<std::int64_t>::max() / product) return std::nullopt;
    product *= std::max<std::int64_t>(extent, 1);
  }
  return empty ? 0 : product;
}

std::int64_t Shape::elements() const {
  const std::optional<std::int64_t> product = checked_elements();
  expects(product.has_value(), "the element count of shape {} overflows", to_string(*this));
  return *product;
}

bool Shape::operator==(const Shape& other) const noexcept {
  return std::ranges::equal(extents(), other.extents());
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.extents(), ", "));
}

}  // namespace lamina
