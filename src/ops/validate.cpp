#include "ops/validate.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace lamina::ops {

namespace {

std::string describe(const ConstTensorView& view) {
  const auto strides = view.strides();
  return fmt::format("{} {} with strides [{}]", to_string(view.dtype()), to_string(view.shape()),
                     fmt::join(strides.begin(), strides.begin() + static_cast<std::ptrdiff_t>(view.rank()), ", "));
}

bool same_elements(const ConstTensorView& a, const ConstTensorView& b) {
  return a.data() == b.data() && a.dtype() == b.dtype() && a.shape() == b.shape() && a.strides() == b.strides();
}

std::size_t row_span_bytes(const ConstTensorView& view) {
  return view.slice(0, 0, 1).span_bytes();
}

std::size_t row_stride_bytes(const ConstTensorView& view) {
  return static_cast<std::size_t>(view.stride(0)) * size_of(view.dtype());
}

/// Whether the views are column ranges of rows with one common stride, and have no column in common.
bool apart_in_columns(const ConstTensorView& a, const ConstTensorView& b) {
  if (a.rank() == 0 || b.rank() == 0 || row_stride_bytes(a) != row_stride_bytes(b)) return false;
  const std::size_t stride = row_stride_bytes(a);
  if (row_span_bytes(a) > stride || row_span_bytes(b) > stride) return false;
  const bool a_first = a.data() <= b.data();
  const auto distance = static_cast<std::size_t>(a_first ? b.data() - a.data() : a.data() - b.data()) % stride;
  const std::size_t first_span = row_span_bytes(a_first ? a : b);
  const std::size_t second_span = row_span_bytes(a_first ? b : a);
  return distance >= first_span && distance + second_span <= stride;
}

bool overlap(const ConstTensorView& a, const ConstTensorView& b) {
  const bool spans_meet = a.data() < b.data() + b.span_bytes() && b.data() < a.data() + a.span_bytes();
  return spans_meet && !apart_in_columns(a, b);
}

bool without_data(const ConstTensorView& a, const ConstTensorView& b) {
  return a.data() == nullptr || b.data() == nullptr;
}

}  // namespace

void Operand::reject(std::string_view expected) const {
  fail(ErrorCode::internal, "{}: operand {} is {}, expected {}", operation_, name_, describe(view_), expected);
}

const Operand& Operand::dtype(std::initializer_list<DType> allowed) const {
  if (std::find(allowed.begin(), allowed.end(), view_.dtype()) != allowed.end()) return *this;
  std::vector<std::string_view> names;
  for (const DType each : allowed) names.push_back(to_string(each));
  fail(ErrorCode::not_implemented, "{}: operand {} has dtype {}, supported: {}", operation_, name_,
       to_string(view_.dtype()), fmt::join(names, ", "));
}

const Operand& Operand::activation(const OpContext& context) const {
  return device_kind(context) == DeviceKind::cuda ? f32_or_bf16() : f32();
}

const Operand& Operand::like(const Operand& other) const {
  if (view_.dtype() != other.view_.dtype())
    reject(fmt::format("{} as operand {}", to_string(other.view_.dtype()), other.name_));
  return *this;
}

const Operand& Operand::rank(std::size_t expected) const {
  if (view_.rank() != expected) reject(fmt::format("rank {}", expected));
  const auto extents = view_.shape().extents();
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) reject("no empty axis");
  return *this;
}

const Operand& Operand::shape(const Shape& expected) const {
  if (view_.shape() != expected) reject(fmt::format("shape {}", to_string(expected)));
  return rank(expected.rank());
}

const Operand& Operand::contiguous() const {
  if (!view_.is_contiguous()) reject("contiguous elements");
  return *this;
}

const Operand& Operand::rows() const {
  const std::size_t last = view_.rank() - 1;
  if (view_.size(last) != 1 && view_.stride(last) != 1) reject("a contiguous last axis");
  return *this;
}

const Operand& Operand::apart_from(const Operand& other) const {
  if (without_data(view_, other.view_)) return *this;
  if (overlap(view_, other.view_)) reject(fmt::format("no overlap with operand {}", other.name_));
  return *this;
}

const Operand& Operand::same_or_apart_from(const Operand& other) const {
  return same_elements(view_, other.view_) ? *this : apart_from(other);
}

void refuse_device(std::string_view operation, const OpContext& context) {
  fail(ErrorCode::unavailable, "{}: this build has no version for device {}", operation,
       context.stream().device().name());
}

}  // namespace lamina::ops
