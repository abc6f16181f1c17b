#pragma once

#include <functional>
#include <initializer_list>
#include <string_view>

#include "device/cpu/cpu_stream.h"
#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

/// Announces an operation's operands and enqueues `body` on the context's CPU stream; does nothing in a planning
/// context. `scratch` is what the body uses of the workspace.
inline void cpu_launch(OpContext& context, std::string_view name, std::initializer_list<ConstTensorView> reads,
                       std::initializer_list<ConstTensorView> writes, MemoryRange scratch, std::function<void()> body) {
  if (context.is_planning()) return;
  Access access{name, {}, {}};
  for (const ConstTensorView& view : reads) access.reads.push_back(range_of(view));
  for (const ConstTensorView& view : writes) access.writes.push_back(range_of(view));
  if (scratch.size_bytes > 0) access.writes.push_back(scratch);
  context.stream().announce(access);
  lamina::cpu::launch(context.stream(), std::move(access), std::move(body));
}

}  // namespace lamina::ops
