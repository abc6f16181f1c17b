#pragma once

#include <initializer_list>
#include <string_view>

#include "device/device.h"
#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

/// An operand under check. Each check returns the operand, or throws internal naming operation, operand, shape, and
/// what was expected; dtypes an operation lacks are not_implemented.
///
///   Operand("linear", "x", x).f32().rank(2).rows();
class Operand {
 public:
  Operand(std::string_view operation, std::string_view name, const ConstTensorView& view)
      : operation_(operation), name_(name), view_(view) {}

  const Operand& dtype(std::initializer_list<DType> allowed) const;
  const Operand& f32() const { return dtype({DType::f32}); }
  const Operand& f32_or_bf16() const { return dtype({DType::f32, DType::bf16}); }
  /// An activation: f32, and on CUDA bf16 as well.
  const Operand& activation(const OpContext& context) const;
  /// Of the same dtype as `other`.
  const Operand& like(const Operand& other) const;

  /// No empty axis either.
  const Operand& rank(std::size_t expected) const;
  const Operand& shape(const Shape& expected) const;

  const Operand& contiguous() const;
  /// The last axis is contiguous; the others may be strided.
  const Operand& rows() const;

  /// No element in common with `other`. Not checked where data is absent (planning).
  const Operand& apart_from(const Operand& other) const;
  /// The very same elements as `other`, or none in common.
  const Operand& same_or_apart_from(const Operand& other) const;

 private:
  [[noreturn]] void reject(std::string_view expected) const;

  std::string_view operation_;
  std::string_view name_;
  ConstTensorView view_;
};

inline DeviceKind device_kind(const OpContext& context) {
  return context.stream().device().kind();
}

/// Throws unavailable: this build has no version of the operation for the context's device.
[[noreturn]] void refuse_device(std::string_view operation, const OpContext& context);

}  // namespace lamina::ops
