#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace lamina {

/// A strided window onto tensor memory that somebody else owns, on the host or on a device. Cheap to copy.
/// `Byte` is `std::byte` (results) or `const std::byte` (operands). Strides count elements. `data` may be null in a
/// planning run, where only shapes matter.
template <typename Byte>
class BasicTensorView {
 public:
  BasicTensorView() = default;

  /// A contiguous row-major view.
  BasicTensorView(Byte* data, DType dtype, const Shape& shape) : data_(data), dtype_(dtype), shape_(shape) {
    std::int64_t stride = 1;
    for (std::size_t axis = shape.rank(); axis-- > 0;) {
      strides_[axis] = stride;
      stride *= shape[axis];
    }
  }

  /// A mutable view serves where a const one is asked for.
  template <typename Other>
    requires(std::is_const_v<Byte> && !std::is_const_v<Other>)
  BasicTensorView(const BasicTensorView<Other>& other)  // NOLINT(google-explicit-constructor)
      : data_(other.data()), dtype_(other.dtype()), shape_(other.shape()), strides_(other.strides()) {}

  Byte* data() const noexcept { return data_; }
  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  std::size_t rank() const noexcept { return shape_.rank(); }
  std::int64_t size(std::size_t axis) const { return shape_[axis]; }
  std::int64_t stride(std::size_t axis) const { return strides_[axis]; }
  const std::array<std::int64_t, Shape::kMaxRank>& strides() const noexcept { return strides_; }

  /// The elements as `T`. The caller has checked the dtype.
  template <typename T>
  auto as() const noexcept {
    return reinterpret_cast<std::conditional_t<std::is_const_v<Byte>, const T, T>*>(data_);
  }

  bool is_contiguous() const noexcept {
    std::int64_t expected = 1;
    for (std::size_t axis = rank(); axis-- > 0;) {
      if (shape_[axis] != 1 && strides_[axis] != expected) return false;
      expected *= shape_[axis];
    }
    return true;
  }

  /// Bytes from the first to behind the last element, gaps included; 0 for an empty view.
  std::size_t span_bytes() const {
    std::int64_t last = 0;
    for (std::size_t axis = 0; axis < rank(); ++axis) {
      if (shape_[axis] == 0) return 0;
      last += (shape_[axis] - 1) * strides_[axis];
    }
    return static_cast<std::size_t>(last + 1) * size_of(dtype_);
  }

  /// Elements [begin, end) of one axis; throws internal outside of it.
  BasicTensorView slice(std::size_t axis, std::int64_t begin, std::int64_t end) const {
    if (axis >= rank() || begin < 0 || begin > end || end > shape_[axis])
      fail(ErrorCode::internal, "slice [{}, {}) of axis {} of {}", begin, end, axis, to_string(shape_));
    BasicTensorView result = *this;
    std::array<std::int64_t, Shape::kMaxRank> extents{};
    for (std::size_t i = 0; i < rank(); ++i) extents[i] = i == axis ? end - begin : shape_[i];
    result.shape_ = Shape(std::span<const std::int64_t>(extents.data(), rank()));
    if (data_ != nullptr) result.data_ = data_ + begin * strides_[axis] * static_cast<std::int64_t>(size_of(dtype_));
    return result;
  }

  /// The last axis [n * m] as two axes [n, m]: features as heads, for example.
  BasicTensorView split_last(std::int64_t inner) const {
    const std::size_t last = rank() - 1;
    if (rank() == 0 || rank() == Shape::kMaxRank || inner <= 0 || shape_[last] % inner != 0)
      fail(ErrorCode::internal, "the last axis of {} does not split by {}", to_string(shape_), inner);
    BasicTensorView result = *this;
    std::array<std::int64_t, Shape::kMaxRank> extents{};
    for (std::size_t i = 0; i < last; ++i) extents[i] = shape_[i];
    extents[last] = shape_[last] / inner;
    extents[last + 1] = inner;
    result.shape_ = Shape(std::span<const std::int64_t>(extents.data(), rank() + 1));
    result.strides_[last] = inner * strides_[last];
    result.strides_[last + 1] = strides_[last];
    return result;
  }

  /// The same elements with axis i the former axis `order[i]`; throws internal unless all axes are named once.
  BasicTensorView permute(std::initializer_list<std::size_t> order) const {
    std::array<bool, Shape::kMaxRank> seen{};
    std::array<std::int64_t, Shape::kMaxRank> extents{};
    BasicTensorView result = *this;
    std::size_t axis = 0;
    for (const std::size_t from : order) {
      if (order.size() != rank() || from >= rank() || std::exchange(seen[from], true))
        fail(ErrorCode::internal, "axis {} in an order of {} axes does not permute {}", from, order.size(),
             to_string(shape_));
      extents[axis] = shape_[from];
      result.strides_[axis++] = strides_[from];
    }
    result.shape_ = Shape(std::span<const std::int64_t>(extents.data(), rank()));
    return result;
  }

  /// The same bytes under another shape; throws internal unless contiguous and of equal element count.
  BasicTensorView reshape(const Shape& shape) const {
    if (!is_contiguous() || shape.elements() != shape_.elements())
      fail(ErrorCode::internal, "cannot view {} as {}", to_string(shape_), to_string(shape));
    return BasicTensorView(data_, dtype_, shape);
  }

 private:
  Byte* data_ = nullptr;
  DType dtype_ = DType::f32;
  Shape shape_;
  std::array<std::int64_t, Shape::kMaxRank> strides_{};
};

using TensorView = BasicTensorView<std::byte>;
using ConstTensorView = BasicTensorView<const std::byte>;

}  // namespace lamina
