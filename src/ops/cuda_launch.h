#pragma once

#include <source_location>
#include <string_view>
#include <utility>
#include <vector>

#include "device/cuda/cuda_native.h"
#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::ops {

/// Announces an operation's operands and calls `enqueue` with the context's stream, as CUDA knows it and with its
/// device current; does nothing in a planning context. `scratch` is what the operation uses of the workspace. A launch
/// that CUDA refuses is thrown as `lamina::cuda::check` does, with the caller's place in the source.
template <typename Enqueue>
void cuda_launch(OpContext& context, std::string_view name, const std::vector<ConstTensorView>& reads,
                 const std::vector<ConstTensorView>& writes, MemoryRange scratch, Enqueue&& enqueue,
                 std::source_location where = std::source_location::current()) {
  if (context.is_planning()) return;
  Access access{name, {}, {}};
  for (const ConstTensorView& view : reads) access.reads.push_back(range_of(view));
  for (const ConstTensorView& view : writes) access.writes.push_back(range_of(view));
  if (scratch.size_bytes > 0) access.writes.push_back(scratch);
  context.stream().announce(access);
  const cudaStream_t stream = lamina::cuda::native(context.stream());
  std::forward<Enqueue>(enqueue)(stream);
  lamina::cuda::check(cudaGetLastError(), where);
}

}  // namespace lamina::ops
