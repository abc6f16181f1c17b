// Times operations at the shapes of the demo model's transformer (tiny-shapes at 128x128: 512 text and 64 image tokens,
// width 160, 5 heads of 32, mlp ratio 3, bf16 weights), beside a plain f32 matmul of oneDNN with the same team.
//
// Columns: time of one call (the best of several series); its arithmetic, and its operands, each read or written once;
// both over the time; the arithmetic rate over the matmul's; calls in one forward pass, and their time. The last lines
// add up one pass, and the 40 of a demo picture (20 steps with guidance).

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "device/cpu/cpu_device.h"
#include "ops/attention.h"
#include "ops/bf16.h"
#include "ops/cpu_launch.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/onednn.h"
#include "ops/qk_norm_rope.h"
#include "tensor/arena.h"

namespace {

using namespace lamina;

constexpr std::int64_t kText = 512;
constexpr std::int64_t kImage = 64;
constexpr std::int64_t kTokens = kText + kImage;
constexpr std::int64_t kHeads = 5;
constexpr std::int64_t kHeadDim = 32;
constexpr std::int64_t kWidth = kHeads * kHeadDim;
constexpr std::int64_t kMlp = 3 * kWidth;
constexpr int kDoubleBlocks = 4;
constexpr int kSingleBlocks = 12;
constexpr int kPasses = 40;

/// Device tensors of small random values, all from one buffer.
class Tensors {
 public:
  explicit Tensors(Device& device)
      : stream_(device.create_stream("fill")),
        buffer_(device.allocate(kBytes, "tensors")),
        staging_(device.allocate_pinned(kBytes, "bench")),
        arena_(buffer_.data(), kBytes) {}

  TensorView f32(const Shape& shape) {
    return filled<float>(DType::f32, shape, [](float value) { return value; });
  }
  TensorView bf16(const Shape& shape) { return filled<std::uint16_t>(DType::bf16, shape, ops::narrow); }

 private:
  static constexpr std::size_t kBytes = 64 * kMiB;

  template <typename Element, typename Convert>
  TensorView filled(DType dtype, const Shape& shape, Convert convert) {
    const TensorView view = arena_.take(dtype, shape);
    auto* values = reinterpret_cast<Element*>(staging_.data());
    std::generate_n(values, shape.elements(), [&] { return convert(distribution_(engine_)); });
    stream_->copy_to_device_async(view.data(), staging_.data(), view.span_bytes(), "fill");
    stream_->synchronize();
    return view;
  }

  std::mt19937 engine_{1};
  std::normal_distribution<float> distribution_{0.0F, 0.1F};
  std::unique_ptr<Stream> stream_;
  DeviceBuffer buffer_;
  PinnedBuffer staging_;
  Arena arena_;
};

struct Case {
  std::string name;
  int calls_per_pass;
  double flops;
  std::vector<ConstTensorView> operands;
  std::function<void(ops::OpContext&)> run;
};

class Table {
 public:
  explicit Table(Device& device) : device_(device), stream_(device.create_stream("compute")) {
    fmt::print("{:34} {:>9} {:>8} {:>7} {:>8} {:>7} {:>8} {:>6} {:>9}\n", "operation", "us", "MFLOP", "MB", "GFLOP/s",
               "GB/s", "ceiling", "calls", "us/pass");
  }

  /// Prints the case; the ceiling is the rate of the first one.
  void add(const Case& each) {
    const double seconds = time(each);
    const double rate = each.flops / seconds;
    if (ceiling_ == 0) ceiling_ = rate;
    double bytes = 0;
    for (const ConstTensorView& operand : each.operands) {
      bytes += static_cast<double>(operand.shape().elements()) * static_cast<double>(size_of(operand.dtype()));
    }
    const double pass_seconds = each.calls_per_pass * seconds;
    fmt::print("{:34} {:9.1f} {:8.2f} {:7.3f} {:8.1f} {:7.1f} {:7.1f}% {:6} {:9.1f}\n", each.name, seconds * 1e6,
               each.flops * 1e-6, bytes * 1e-6, rate * 1e-9, bytes / seconds * 1e-9, 100 * rate / ceiling_,
               each.calls_per_pass, pass_seconds * 1e6);
    pass_seconds_ += pass_seconds;
    pass_flops_ += each.calls_per_pass * each.flops;
  }

  void print_totals() const {
    fmt::print("\none pass: {:.2f} ms, {:.2f} GFLOP, {:.1f} GFLOP/s, {:.1f}% of the ceiling\n", pass_seconds_ * 1e3,
               pass_flops_ * 1e-9, pass_flops_ / pass_seconds_ * 1e-9, 100 * pass_flops_ / pass_seconds_ / ceiling_);
    fmt::print("{} passes: {:.2f} s, {:.0f} GFLOP\n", kPasses, kPasses * pass_seconds_, kPasses * pass_flops_ * 1e-9);
  }

 private:
  double time(const Case& each) {
    ops::OpContext plan = ops::OpContext::planning(*stream_);
    each.run(plan);
    const DeviceBuffer workspace = device_.allocate(std::max<std::size_t>(plan.peak_bytes(), 1), "workspace");
    ops::OpContext context(*stream_, workspace.data(), workspace.size_bytes());
    double best = std::numeric_limits<double>::infinity();
    for (int series = 0; series < kSeries; ++series) {
      const auto start = std::chrono::steady_clock::now();
      for (int call = 0; call < kCalls; ++call) each.run(context);
      stream_->synchronize();
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      best = std::min(best, elapsed.count() / kCalls);
    }
    return best;
  }

  static constexpr int kSeries = 40;
  static constexpr int kCalls = 5;

  Device& device_;
  std::unique_ptr<Stream> stream_;
  double ceiling_ = 0;
  double pass_seconds_ = 0;
  double pass_flops_ = 0;
};

Case matmul_ceiling(Tensors& tensors) {
  constexpr std::int64_t kSize = 1024;
  const TensorView a = tensors.f32({kSize, kSize});
  const TensorView b = tensors.f32({kSize, kSize});
  const TensorView c = tensors.f32({kSize, kSize});
  const auto matmul = ops::onednn::cached("ceiling", {kSize}, [] {
    const dnnl::memory::desc square = ops::onednn::matrix({kSize, kSize}, {kSize, 1});
    return dnnl::matmul::primitive_desc({square, square, square}, ops::onednn::user_scratchpad(),
                                        ops::onednn::engine());
  });
  return {
      "f32 matmul 1024^3 (ceiling)", 0, 2.0 * kSize * kSize * kSize, {a, b, c}, [=](ops::OpContext& context) {
        std::byte* scratchpad = context.scratch(matmul->scratchpad_bytes());
        ops::cpu_launch(context, "ceiling", {a, b}, {c}, {scratchpad, matmul->scratchpad_bytes()}, [=] {
          matmul->run(scratchpad, {{DNNL_ARG_SRC, a.data()}, {DNNL_ARG_WEIGHTS, b.data()}, {DNNL_ARG_DST, c.data()}});
        });
      }};
}

Case linear(Tensors& tensors, int calls, std::int64_t rows, std::int64_t in, std::int64_t out) {
  const TensorView x = tensors.f32({rows, in});
  const TensorView w = tensors.bf16({out, in});
  const TensorView y = tensors.f32({rows, out});
  const double flops = 2.0 * static_cast<double>(rows * in * out);
  return {fmt::format("linear {} x {} -> {}", rows, in, out), calls, flops, {x, w, y}, [=](ops::OpContext& context) {
            ops::linear(context, x, w, y);
          }};
}

Case attention(Tensors& tensors, int calls, std::int64_t row_features, std::int64_t out_features) {
  const TensorView rows = tensors.f32({kTokens, row_features});
  const auto heads = [&](int group) {
    return rows.slice(1, group * kWidth, (group + 1) * kWidth).split_last(kHeadDim);
  };
  const TensorView q = heads(0);
  const TensorView k = heads(1);
  const TensorView v = heads(2);
  const TensorView out = tensors.f32({kTokens, out_features}).slice(1, 0, kWidth).split_last(kHeadDim);
  const double flops = 4.0 * static_cast<double>(kTokens * kTokens * kWidth);
  return {fmt::format("attention {} x {} x {}, of {}", kTokens, kHeads, kHeadDim, row_features),
          calls,
          flops,
          {q, k, v, out},
          [=](ops::OpContext& context) { ops::attention(context, q, k, v, out, {.scale = 0.17F}); }};
}

Case silu_mul(Tensors& tensors, int calls, std::int64_t rows, std::int64_t row_features, std::int64_t y_features) {
  const TensorView u = tensors.f32({rows, row_features});
  const TensorView gate = u.slice(1, row_features - 2 * kMlp, row_features - kMlp);
  const TensorView up = u.slice(1, row_features - kMlp, row_features);
  const TensorView y = tensors.f32({rows, y_features}).slice(1, y_features - kMlp, y_features);
  return {fmt::format("silu_mul {} x {}, of {}", rows, kMlp, row_features),
          calls,
          2.0 * static_cast<double>(rows * kMlp),
          {gate, up, y},
          [=](ops::OpContext& context) { ops::silu_mul(context, gate, up, y); }};
}

Case layer_norm(Tensors& tensors, int calls, std::int64_t rows) {
  const TensorView x = tensors.f32({rows, kWidth});
  const TensorView scale = tensors.f32({kWidth});
  const TensorView shift = tensors.f32({kWidth});
  const TensorView y = tensors.f32({rows, kWidth});
  return {fmt::format("layer_norm_modulate {} x {}", rows, kWidth),
          calls,
          7.0 * static_cast<double>(rows * kWidth),
          {x, y},
          [=](ops::OpContext& context) { ops::layer_norm_modulate(context, x, scale, shift, 1e-6F, y); }};
}

Case rope(Tensors& tensors, int calls, std::int64_t rows, std::int64_t row_features) {
  const TensorView qk = tensors.f32({rows, row_features});
  const TensorView q = qk.slice(1, 0, kWidth).split_last(kHeadDim);
  const TensorView k = qk.slice(1, kWidth, 2 * kWidth).split_last(kHeadDim);
  const ops::QkNorm norm{tensors.bf16({kHeadDim}), tensors.bf16({kHeadDim})};
  const ops::Rotation rotation{tensors.f32({rows, kHeadDim / 2}), tensors.f32({rows, kHeadDim / 2})};
  return {fmt::format("qk_norm_rope {} x 2 x {}, of {}", rows, kWidth, row_features),
          calls,
          12.0 * static_cast<double>(rows * kWidth),
          {q, k, q, k},
          [=](ops::OpContext& context) { ops::qk_norm_rope(context, q, k, norm, rotation); }};
}

Case gated_add(Tensors& tensors, int calls, std::int64_t rows) {
  const TensorView x = tensors.f32({rows, kWidth});
  const TensorView gate = tensors.f32({kWidth});
  const TensorView y = tensors.f32({rows, kWidth});
  return {fmt::format("gated_add {} x {}", rows, kWidth),
          calls,
          2.0 * static_cast<double>(rows * kWidth),
          {x, y, y},
          [=](ops::OpContext& context) { ops::gated_add(context, x, gate, y); }};
}

/// A double block's operations on the `rows` tokens of one stream.
void add_double_blocks(Table& table, Tensors& tensors, std::int64_t rows) {
  table.add(layer_norm(tensors, 2 * kDoubleBlocks, rows));
  table.add(linear(tensors, 4 * kDoubleBlocks, rows, kWidth, kWidth));
  table.add(rope(tensors, kDoubleBlocks, rows, 3 * kWidth));
  table.add(linear(tensors, kDoubleBlocks, rows, kWidth, 2 * kMlp));
  table.add(silu_mul(tensors, kDoubleBlocks, rows, 2 * kMlp, kMlp));
  table.add(linear(tensors, kDoubleBlocks, rows, kMlp, kWidth));
  table.add(gated_add(tensors, 2 * kDoubleBlocks, rows));
}

void add_single_blocks(Table& table, Tensors& tensors) {
  constexpr std::int64_t kFused = 3 * kWidth + 2 * kMlp;
  constexpr std::int64_t kJoined = kWidth + kMlp;
  table.add(layer_norm(tensors, kSingleBlocks, kTokens));
  table.add(linear(tensors, kSingleBlocks, kTokens, kWidth, kFused));
  table.add(rope(tensors, kSingleBlocks, kTokens, kFused));
  table.add(attention(tensors, kSingleBlocks, kFused, kJoined));
  table.add(silu_mul(tensors, kSingleBlocks, kTokens, kFused, kJoined));
  table.add(linear(tensors, kSingleBlocks, kTokens, kJoined, kWidth));
  table.add(gated_add(tensors, kSingleBlocks, kTokens));
}

}  // namespace

int main() {
  const std::unique_ptr<Device> device = create_cpu_device();
  Tensors tensors(*device);
  fmt::print("OpenMP team of {} threads\n\n", cpu_team_size());
  Table table(*device);
  table.add(matmul_ceiling(tensors));
  add_double_blocks(table, tensors, kText);
  add_double_blocks(table, tensors, kImage);
  table.add(attention(tensors, kDoubleBlocks, 3 * kWidth, kWidth));
  add_single_blocks(table, tensors);
  table.print_totals();
}
