#include "gpu_ops_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include "device/cuda/cuda_native.h"
#include "ops/linear.h"
#include "tensor/bf16.h"

namespace lamina::bench {

namespace {

double bytes_of(const Line& line) {
  double bytes = 0;
  for (const ConstTensorView& operand : line.operands)
    bytes += static_cast<double>(operand.shape().elements()) * static_cast<double>(size_of(operand.dtype()));
  return bytes;
}

}  // namespace

Tensors::Tensors(Device& device)
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

std::vector<TensorView> Tensors::turns(const Shape& shape, std::size_t least_bytes) {
  std::vector<TensorView> result;
  std::size_t size_bytes = 0;
  while (size_bytes < least_bytes) size_bytes += result.emplace_back(bf16(shape)).span_bytes();
  return result;
}

Line linear(Tensors& tensors, std::string_view name, std::int64_t rows, std::int64_t in, std::int64_t out) {
  tensors.renew();
  const TensorView x = tensors.bf16({rows, in});
  const TensorView y = tensors.bf16({rows, out});
  const std::vector<TensorView> weights = tensors.turns({out, in});
  return {
      fmt::format("linear {}, {} x {} -> {}", name, rows, in, out),
      2.0 * static_cast<double>(rows * in * out),
      {x, weights[0], y},
      [=](ops::OpContext& context, std::size_t call) { ops::linear(context, x, weights[call % weights.size()], y); }};
}

Line copy(Tensors& tensors, const Shape& shape) {
  tensors.renew();
  const std::vector<TensorView> from = tensors.turns(shape);
  const std::vector<TensorView> to = tensors.turns(shape);
  return {
      fmt::format("copy {}", to_string(shape)), 0, {from[0], to[0]}, [=](ops::OpContext& context, std::size_t call) {
        if (context.is_planning()) return;
        const TensorView& source = from[call % from.size()];
        cuda::check(cudaMemcpyAsync(to[call % to.size()].data(), source.data(), source.span_bytes(),
                                    cudaMemcpyDeviceToDevice, cuda::native(context.stream())));
      }};
}

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

void Table::measure_ceilings(Tensors& tensors) {
  const Line product = linear(tensors, "ceiling", 8192, 8192, 8192);
  flop_per_second_ = product.flop / measure(product).seconds;
  const Line device_copy = copy(tensors, {std::int64_t{kGiB}});
  bytes_per_second_ = bytes_of(device_copy) / measure(device_copy).seconds;
  fmt::print("Ceilings: {:.0f} TFLOP/s (linear of 8192 x 8192 x 8192), {:.0f} GB/s (device copy)\n\n",
             flop_per_second_ * 1e-12, bytes_per_second_ * 1e-9);
  fmt::print("| operation | bytes | FLOP | time | TFLOP/s | GB/s | floor | ratio to floor | scratch |\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|\n");
}

}  // namespace lamina::bench
