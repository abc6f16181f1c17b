// Times operations on a GPU at the shapes of FLUX.2 klein 9B (width 4096, 32 heads of 128, mlp 12288; 512 text tokens
// and 1024, 4096 or 16384 image tokens) and of its VAE at 2048 px, bf16.
//
//   lamina_cuda_ops_bench [WORDS]      only lines whose name contains WORDS
//
// Columns: bytes of the operands, each read or written once (a group norm reads its image twice); FLOP; time of one
// call, the median of series by device events, weights and the operands of memory-bound operations rotated through
// memory where the L2 cache could keep them; both over the time; the floor, which is the larger of FLOP over the rate
// of a product of 8192 x 8192 x 8192 and bytes over the rate of a device copy, both measured in this run; time over
// floor; scratch.

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "device/cuda/cuda_device.h"
#include "gpu_memory_bound_ops.h"
#include "gpu_ops_table.h"
#include "ops/attention.h"
#include "ops/conv.h"

namespace {

using namespace lamina;
using namespace lamina::bench;

constexpr std::int64_t kWidth = 4096;
constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kMlp = 12'288;

/// q, k, v in columns of rows that also hold gate and up, out in columns of its concatenation: a single block's layout.
Line attention(Tensors& tensors, std::int64_t tokens) {
  tensors.renew();
  const TensorView rows = tensors.bf16({tokens, 3 * kWidth + 2 * kMlp});
  const auto heads = [&](const TensorView& view, std::int64_t part) {
    return view.slice(1, part * kWidth, (part + 1) * kWidth).split_last(kHeadDim);
  };
  const TensorView q = heads(rows, 0);
  const TensorView k = heads(rows, 1);
  const TensorView v = heads(rows, 2);
  const TensorView out = heads(tensors.bf16({tokens, kWidth + kMlp}), 0);
  return {fmt::format("attention {} x 32 x 128", tokens),
          4.0 * static_cast<double>(tokens * tokens * kWidth),
          {q, k, v, out},
          [=](ops::OpContext& context, std::size_t) { ops::attention(context, q, k, v, out, {.scale = 0.088F}); }};
}

struct Mask {
  std::int64_t kv_heads;
  bool causal;
};

Line dense_attention(Tensors& tensors, std::string_view name, const Shape& shape, const Mask& mask) {
  tensors.renew();
  const TensorView q = tensors.bf16(shape);
  const TensorView k = tensors.bf16({shape[0], mask.kv_heads, shape[2]});
  const TensorView v = tensors.bf16({shape[0], mask.kv_heads, shape[2]});
  const TensorView out = tensors.bf16(shape);
  const double pairs = static_cast<double>(shape[0] * shape[0]) * (mask.causal ? 0.5 : 1.0);
  return {fmt::format("attention {} {}", name, to_string(shape)),
          4.0 * pairs * static_cast<double>(shape[1] * shape[2]),
          {q, k, v, out},
          [=, causal = mask.causal](ops::OpContext& context, std::size_t) {
            ops::attention(context, q, k, v, out, {.scale = 0.088F, .causal = causal});
          }};
}

Line convolution(Tensors& tensors, std::int64_t side, std::int64_t in, std::int64_t out) {
  tensors.renew();
  const TensorView x = tensors.bf16({side, side, in});
  const TensorView w = tensors.bf16({out, in, 3, 3});
  const TensorView bias = tensors.bf16({out});
  const TensorView y = tensors.bf16({side, side, out});
  const ops::Conv2dOptions same{.stride = 1, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1};
  return {fmt::format("conv2d 3x3, {} x {} x {} -> {}", side, side, in, out),
          18.0 * static_cast<double>(side * side * in * out),
          {x, w, y},
          [=](ops::OpContext& context, std::size_t) { ops::conv2d(context, x, w, bias, same, y); }};
}

void add_linear(Table& table, Tensors& tensors) {
  table.add(linear(tensors, "modulation of a double block", 1, kWidth, 6 * kWidth));
  table.add(linear(tensors, "modulation of a single block", 1, kWidth, 3 * kWidth));
  for (const std::int64_t tokens : {512, 1024, 4096, 16'384}) {
    table.add(linear(tensors, "qkv", tokens, kWidth, 3 * kWidth));
    table.add(linear(tensors, "out", tokens, kWidth, kWidth));
    table.add(linear(tensors, "ff_in", tokens, kWidth, 2 * kMlp));
    table.add(linear(tensors, "ff_out", tokens, kMlp, kWidth));
  }
  for (const std::int64_t tokens : {1536, 4608, 16'896}) {
    table.add(linear(tensors, "qkv_mlp", tokens, kWidth, 3 * kWidth + 2 * kMlp));
    table.add(linear(tensors, "out of a single block", tokens, kWidth + kMlp, kWidth));
  }
}

void add_attention(Table& table, Tensors& tensors) {
  for (const std::int64_t tokens : {1536, 4608, 4737, 16'896}) table.add(attention(tensors, tokens));
  table.add(dense_attention(tensors, "causal", {512, 32, 128}, {.kv_heads = 8, .causal = true}));
  for (const std::int64_t side : {64, 128, 256})
    table.add(dense_attention(tensors, "of the VAE", {side * side, 1, 512}, {.kv_heads = 1, .causal = false}));
}

void add_convolutions(Table& table, Tensors& tensors) {
  table.add(convolution(tensors, 256, 32, 512));
  for (const std::int64_t side : {256, 512}) table.add(convolution(tensors, side, 512, 512));
  table.add(convolution(tensors, 1024, 512, 256));
  table.add(convolution(tensors, 1024, 256, 256));
  table.add(convolution(tensors, 2048, 256, 128));
  table.add(convolution(tensors, 2048, 128, 128));
  table.add(convolution(tensors, 2048, 128, 3));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::unique_ptr<Device> device = create_cuda_device();
    Tensors tensors(*device);
    Table table(*device, argc > 1 ? argv[1] : "");
    table.measure_ceilings(tensors);
    add_linear(table, tensors);
    add_attention(table, tensors);
    add_convolutions(table, tensors);
    add_memory_bound(table, tensors);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_ops_bench: {}\n", error.what());
    return 1;
  }
}
