#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "ops/bf16.h"
#include "ops/cpu_launch.h"
#include "ops/cpu_ops.h"
#include "ops/onednn.h"
#include "ops/scratch.h"

namespace lamina::ops::cpu {

namespace {

/// oneDNN multiplies f32 with f32 only, so bf16 weights are widened, as many output rows at a time as fit. Every chunk
/// reads all of x again, so fewer are better.
constexpr std::size_t kWidenedBytes = 8 * kMiB;

std::int64_t outputs_per_chunk(const ConstTensorView& w) {
  if (w.dtype() == DType::f32) return w.size(0);
  const auto row_bytes = static_cast<std::size_t>(w.size(1)) * sizeof(float);
  return chunk_length(w.size(0), static_cast<std::int64_t>(kWidenedBytes / row_bytes));
}

std::shared_ptr<const onednn::Primitive> matmul(const ConstTensorView& x, const TensorView& y, std::int64_t outputs,
                                                bool has_bias) {
  const std::int64_t rows = x.size(0);
  const std::int64_t features = x.size(1);
  return onednn::cached("linear", {rows, features, outputs, x.stride(0), y.stride(0), has_bias ? 1 : 0}, [&] {
    const dnnl::memory::desc source = onednn::matrix({rows, features}, {x.stride(0), 1});
    const dnnl::memory::desc weights = onednn::matrix({features, outputs}, {1, features});
    const dnnl::memory::desc bias = onednn::matrix({1, outputs}, {outputs, 1});
    const dnnl::memory::desc result = onednn::matrix({rows, outputs}, {y.stride(0), 1});
    const auto operation =
        has_bias ? dnnl::matmul::desc(source, weights, bias, result) : dnnl::matmul::desc(source, weights, result);
    return dnnl::matmul::primitive_desc(operation, onednn::user_scratchpad(), onednn::engine());
  });
}

/// One range of outputs: y = x wᵀ + bias, all of them views of that range.
struct Chunk {
  ConstTensorView x;
  ConstTensorView w;
  std::optional<ConstTensorView> bias;
  TensorView y;
};

struct Workspace {
  std::byte* scratchpad;
  float* weights;
  float* bias;
};

void run(const onednn::Primitive& primitive, const Chunk& chunk, const Workspace& workspace) {
  const onednn::Argument x = onednn::input(DNNL_ARG_SRC, chunk.x.data());
  const onednn::Argument w = onednn::input(DNNL_ARG_WEIGHTS, as_f32(chunk.w, workspace.weights));
  const onednn::Argument y{DNNL_ARG_DST, chunk.y.data()};
  if (chunk.bias) {
    const auto bias = onednn::input(DNNL_ARG_BIAS, as_f32(*chunk.bias, workspace.bias));
    primitive.run(workspace.scratchpad, {x, w, bias, y});
  } else {
    primitive.run(workspace.scratchpad, {x, w, y});
  }
}

Chunk outputs_of(const Chunk& whole, std::int64_t begin, std::int64_t end) {
  Chunk chunk{whole.x, whole.w.slice(0, begin, end), std::nullopt, whole.y.slice(1, begin, end)};
  if (whole.bias) chunk.bias = whole.bias->slice(0, begin, end);
  return chunk;
}

}  // namespace

void linear(OpContext& context, const ConstTensorView& x, const ConstTensorView& w, const TensorView& y,
            const std::optional<ConstTensorView>& bias) {
  const std::int64_t outputs = w.size(0);
  const std::int64_t step = outputs_per_chunk(w);
  const auto full = matmul(x, y, step, bias.has_value());
  const auto last = outputs % step == 0 ? full : matmul(x, y, outputs % step, bias.has_value());

  Scratch scratch;
  const std::size_t scratchpad = scratch.add(std::max(full->scratchpad_bytes(), last->scratchpad_bytes()));
  const std::size_t weights = scratch.add(widened_bytes(w.slice(0, 0, step)));
  const std::size_t biases = scratch.add(bias ? widened_bytes(bias->slice(0, 0, step)) : 0);
  scratch.obtain(context);

  const Workspace workspace{scratch.at(scratchpad), scratch.floats(weights), scratch.floats(biases)};
  const auto body = [=, whole = Chunk{x, w, bias, y}] {
    for (std::int64_t begin = 0; begin < outputs; begin += step) {
      const std::int64_t end = std::min(begin + step, outputs);
      run(end - begin == step ? *full : *last, outputs_of(whole, begin, end), workspace);
    }
  };
  if (bias) return cpu_launch(context, "linear", {x, w, *bias}, {y}, scratch.range(), body);
  cpu_launch(context, "linear", {x, w}, {y}, scratch.range(), body);
}

}  // namespace lamina::ops::cpu
