#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace lamina {

/// Extents of a tensor, outermost first; rank 0 is a scalar. Extents are never negative. A value type without heap
/// memory.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;

  Shape() = default;
  /// Throws invalid_argument for more than kMaxRank extents or a negative one.
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(std::span<const std::int64_t> extents);

  std::size_t rank() const noexcept { return rank_; }
  std::int64_t operator[](std::size_t axis) const { return extents_[axis]; }
  std::span<const std::int64_t> extents() const noexcept { return {extents_.data(), rank_}; }

  /// Product of the extents (1 for a scalar, 0 with a zero among them), or nullopt where the product of those that are
  /// not zero does not fit 63 bits: then strides would not fit either.
  std::optional<std::int64_t> checked_elements() const noexcept;
  /// The same for shapes known to fit; throws internal otherwise.
  std::int64_t elements() const;

  bool operator==(const Shape& other) const noexcept;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  std::size_t rank_ = 0;
};

/// "[512, 160]".
std::string to_string(const Shape& shape);

}  // namespace lamina
