#include "ops/elementwise.h"

#include <string_view>

#include "ops/cpu_ops.h"
#include "ops/cuda_ops.h"
#include "ops/validate.h"

namespace lamina::ops {

namespace {

/// Both are rows of one shape and dtype, and the very same elements or apart.
void check_pair(std::string_view operation, const OpContext& context, std::string_view x_name, const ConstTensorView& x,
                std::string_view y_name, const TensorView& y) {
  const Operand input(operation, x_name, x);
  input.activation(context).rank(2).rows();
  Operand(operation, y_name, y).like(input).shape(x.shape()).rows().same_or_apart_from(input);
}

}  // namespace

void silu(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  check_pair("silu", context, "x", x, "y", y);
  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::silu(context, x, y);
    case DeviceKind::cuda: return cuda::silu(context, x, y);
  }
}

void silu_mul(OpContext& context, const ConstTensorView& gate, const ConstTensorView& up, const TensorView& y) {
  check_pair("silu_mul", context, "gate", gate, "y", y);
  check_pair("silu_mul", context, "up", up, "y", y);
  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::silu_mul(context, gate, up, y);
    case DeviceKind::cuda: return cuda::silu_mul(context, gate, up, y);
  }
}

void add(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  check_pair("add", context, "x", x, "y", y);
  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::add(context, x, y);
    case DeviceKind::cuda: return cuda::add(context, x, y);
  }
}

void gated_add(OpContext& context, const ConstTensorView& x, const ConstTensorView& gate, const TensorView& y) {
  check_pair("gated_add", context, "x", x, "y", y);
  const Operand gates("gated_add", "gate", gate);
  gates.like(Operand("gated_add", "x", x)).shape({x.size(1)}).contiguous();
  Operand("gated_add", "y", y).apart_from(gates);
  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::gated_add(context, x, gate, y);
    case DeviceKind::cuda: return cuda::gated_add(context, x, gate, y);
  }
}

void cast(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  const Operand input("cast", "x", x);
  input.f32_or_bf16().contiguous();
  Operand("cast", "y", y).f32_or_bf16().shape(x.shape()).contiguous().apart_from(input);
  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::cast(context, x, y);
    case DeviceKind::cuda: return cuda::cast(context, x, y);
  }
}

void guide(OpContext& context, const ConstTensorView& conditional, const ConstTensorView& unconditional, float scale,
           const TensorView& velocity) {
  check_pair("guide", context, "conditional", conditional, "velocity", velocity);
  check_pair("guide", context, "unconditional", unconditional, "velocity", velocity);
  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::guide(context, conditional, unconditional, scale, velocity);
    case DeviceKind::cuda: return cuda::guide(context, conditional, unconditional, scale, velocity);
  }
}

void euler_step(OpContext& context, const ConstTensorView& velocity, float step, const TensorView& latents) {
  check_pair("euler_step", context, "velocity", velocity, "latents", latents);
  switch (device_kind(context)) {
    case DeviceKind::cpu: return cpu::euler_step(context, velocity, step, latents);
    case DeviceKind::cuda: return cuda::euler_step(context, velocity, step, latents);
  }
}

}  // namespace lamina::ops
