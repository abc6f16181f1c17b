#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/tensor_view.h"

namespace lamina::ops::cpu {

/// The rows of a [rows, features] view with contiguous features, for loops.
template <typename Element>
struct Rows {
  Element* first;
  std::int64_t count;
  std::int64_t features;
  std::int64_t stride;

  Element* operator[](std::int64_t row) const { return first + row * stride; }
};

inline Rows<const float> rows_of(const ConstTensorView& view) {
  return {view.as<float>(), view.size(0), view.size(1), view.stride(0)};
}

inline Rows<float> rows_of(const TensorView& view) {
  return {view.as<float>(), view.size(0), view.size(1), view.stride(0)};
}

/// y += gates * x.
inline void add_gated(const float* x, const float* gates, std::int64_t features, float* y) {
  for (std::int64_t i = 0; i < features; ++i) y[i] += gates[i] * x[i];
}

/// The sum of term(i) over [0, count), as interleaved partial sums: a compiler may not reorder a plain sum, and so
/// could not use vectors. The result depends on no instruction set.
template <typename Term>
float interleaved_sum(std::int64_t count, Term term) {
  constexpr std::int64_t kLanes = 16;
  std::array<float, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[static_cast<std::size_t>(lane)] += term(i + lane);
  }
  for (std::int64_t lane = 0; i + lane < count; ++lane) lanes[static_cast<std::size_t>(lane)] += term(i + lane);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace lamina::ops::cpu
