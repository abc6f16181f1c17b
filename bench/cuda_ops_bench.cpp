// Times operations on a GPU at the shapes of FLUX.2 klein 9B (width 4096, 32 heads of 128, mlp 12288; 512 text tokens
// and 1024, 4096 or 16384 image tokens) and of its VAE at 2048 px, bf16.
//
//   lamina_cuda_ops_bench [WORDS]      only lines whose name contains WORDS
//
// Columns: bytes of the operands, each read or written once; FLOP; time of one call, the median of series by device
// events, weights rotated through memory where the L2 cache could keep them; both over the time; the floor, which is
// the larger of FLOP over the rate of a product of 8192 x 8192 x 8192 and bytes over the rate of a device copy, both
// measured in this run; time over floor; scratch.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_native.h"
#include "device/event.h"
#include "ops/attention.h"
#include "ops/conv.h"
#include "ops/linear.h"
#include "tensor/arena.h"
#include "tensor/bf16.h"

namespace {

using namespace lamina;

constexpr std::int64_t kWidth = 4096;
constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kMlp = 12'288;

/// Device tensors of small random values. `renew` makes room for those of the next line.
class Tensors {
 public:
  explicit Tensors(Device& device)
      : stream_(device.create_stream("fill")), buffer_(device.allocate(kBytes, "tensors")), arena_(whole()) {
    const PinnedBuffer staging = device.allocate_pinned(kPieceBytes, "staging");
    auto* values = reinterpret_cast<std::uint16_t*>(staging.data());
    std::mt19937 engine(1);
    std::normal_distribution<float> distribution(0.0F, 0.1F);
    std::generate_n(values, kPieceBytes / sizeof(*values), [&] { return narrow(distribution(engine)); });
    for (std::size_t begin = 0; begin < kBytes; begin += kPieceBytes)
      stream_->copy_to_device_async(buffer_.data() + begin, staging.data(), kPieceBytes, "fill");
    stream_->synchronize();
  }

  void renew() { arena_ = whole(); }
  TensorView bf16(const Shape& shape) { return arena_.take(DType::bf16, shape); }

  /// Weights of one shape, enough of them that a cache of 50 MiB holds none until its next turn.
  std::vector<TensorView> weights(const Shape& shape) {
    std::vector<TensorView> turns;
    std::size_t size_bytes = 0;
    while (size_bytes < 256 * kMiB) size_bytes += turns.emplace_back(bf16(shape)).span_bytes();
    return turns;
  }

 private:
  static constexpr std::size_t kBytes = 8 * kGiB;
  static constexpr std::size_t kPieceBytes = 16 * kMiB;

  Arena whole() { return {buffer_.data(), kBytes}; }

  std::unique_ptr<Stream> stream_;
  DeviceBuffer buffer_;
  Arena arena_;
};

struct Line {
  std::string name;
  double flop;
  std::vector<ConstTensorView> operands;
  std::function<void(ops::OpContext&, std::size_t call)> run;
};

double bytes_of(const Line& line) {
  double bytes = 0;
  for (const ConstTensorView& operand : line.operands)
    bytes += static_cast<double>(operand.shape().elements()) * static_cast<double>(size_of(operand.dtype()));
  return bytes;
}

class Table {
 public:
  Table(Device& device, std::string_view words)
      : device_(device),
        stream_(device.create_stream("compute")),
        begin_(device.create_event("begin")),
        end_(device.create_event("end")),
        words_(words) {}

  void measure_ceilings(Tensors& tensors);
  void add(const Line& line);

 private:
  struct Measured {
    double seconds;
    std::size_t scratch_bytes;
  };

  Measured measure(const Line& line);
  double series_seconds(const Line& line, ops::OpContext& context, int calls);

  static constexpr int kSeries = 9;
  static constexpr double kSeriesSeconds = 5e-3;

  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> begin_;
  std::unique_ptr<Event> end_;
  std::string_view words_;
  double flop_per_second_ = 0;
  double bytes_per_second_ = 0;
};

double Table::series_seconds(const Line& line, ops::OpContext& context, int calls) {
  stream_->record(*begin_);
  for (int call = 0; call < calls; ++call) line.run(context, static_cast<std::size_t>(call));
  stream_->record(*end_);
  stream_->synchronize();
  return std::chrono::duration<double>(end_->time() - begin_->time()).count() / calls;
}

Table::Measured Table::measure(const Line& line) {
  ops::OpContext plan = ops::OpContext::planning(*stream_);
  line.run(plan, 0);
  const DeviceBuffer workspace = device_.allocate(std::max<std::size_t>(plan.peak_bytes(), 1), "workspace");
  ops::OpContext context(*stream_, workspace.data(), workspace.size_bytes());
  series_seconds(line, context, 2);  // loads code
  const double once = series_seconds(line, context, 2);
  const int calls = std::clamp(static_cast<int>(kSeriesSeconds / once), 2, 200);
  std::vector<double> seconds;
  for (int series = 0; series < kSeries; ++series) seconds.push_back(series_seconds(line, context, calls));
  std::nth_element(seconds.begin(), seconds.begin() + kSeries / 2, seconds.end());
  return {seconds[kSeries / 2], plan.peak_bytes()};
}

void Table::add(const Line& line) {
  if (line.name.find(words_) == std::string::npos) return;
  const auto [seconds, scratch_bytes] = measure(line);
  const double bytes = bytes_of(line);
  const double floor = std::max(line.flop / flop_per_second_, bytes / bytes_per_second_);
  fmt::print("| {} | {:.1f} MB | {:.4f} T | {:.1f} us | {:.0f} | {:.0f} | {:.1f} us | {:.2f} | {} |\n", line.name,
             bytes * 1e-6, line.flop * 1e-12, seconds * 1e6, line.flop / seconds * 1e-12, bytes / seconds * 1e-9,
             floor * 1e6, seconds / floor, format_size(scratch_bytes));
  std::fflush(stdout);
}

Line linear(Tensors& tensors, std::string_view name, std::int64_t rows, std::int64_t in, std::int64_t out) {
  tensors.renew();
  const TensorView x = tensors.bf16({rows, in});
  const TensorView y = tensors.bf16({rows, out});
  const std::vector<TensorView> weights = tensors.weights({out, in});
  return {
      fmt::format("linear {}, {} x {} -> {}", name, rows, in, out),
      2.0 * static_cast<double>(rows * in * out),
      {x, weights[0], y},
      [=](ops::OpContext& context, std::size_t call) { ops::linear(context, x, weights[call % weights.size()], y); }};
}

void Table::measure_ceilings(Tensors& tensors) {
  const Line product = linear(tensors, "ceiling", 8192, 8192, 8192);
  flop_per_second_ = product.flop / measure(product).seconds;
  tensors.renew();
  const TensorView from = tensors.bf16({kGiB});
  const TensorView to = tensors.bf16({kGiB});
  const Line copy{"copy", 0, {from, to}, [=](ops::OpContext& context, std::size_t) {
                    if (context.is_planning()) return;
                    cuda::check(cudaMemcpyAsync(to.data(), from.data(), from.span_bytes(), cudaMemcpyDeviceToDevice,
                                                cuda::native(context.stream())));
                  }};
  bytes_per_second_ = bytes_of(copy) / measure(copy).seconds;
  fmt::print("Ceilings: {:.0f} TFLOP/s (linear of 8192 x 8192 x 8192), {:.0f} GB/s (device copy)\n\n",
             flop_per_second_ * 1e-12, bytes_per_second_ * 1e-9);
  fmt::print("| operation | bytes | FLOP | time | TFLOP/s | GB/s | floor | ratio to floor | scratch |\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|\n");
}

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
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_ops_bench: {}\n", error.what());
    return 1;
  }
}
