// Times whole pictures of the demo model (20 steps with guidance at 128x128), streamed and resident.
//
// First the ceilings of this run: a large f32 matrix product of oneDNN on the compute stream, and memcpy on one thread.
// Then for each mode, of the median run: time of the denoising passes; arithmetic of their linear layers and attention
// over that time, and over the matmul's rate; bytes streamed and the rate of the copies; stall; the virtual-time
// model's prediction on the measured unit times; ratio = time / max(flop / matmul rate, bytes / memcpy rate); then the
// other stages and the whole picture.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "base/json.h"
#include "device/cpu/cpu_device.h"
#include "engine/generator.h"
#include "ops/linear.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace {

using namespace lamina;
using Seconds = std::chrono::duration<double>;

constexpr int kRuns = 5;
constexpr int kSteps = 20;

template <typename Work>
double best_seconds(int repetitions, Work work) {
  double best = 1e9;
  for (int i = 0; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, Seconds(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

/// FLOP/s of a 1024^3 linear layer with f32 weights.
double matmul_rate() {
  constexpr std::int64_t kSize = 1024;
  constexpr std::size_t kBytes = kSize * kSize * sizeof(float);
  const std::unique_ptr<Device> device = create_cpu_device();
  const std::unique_ptr<Stream> stream = device->create_stream("compute");
  const DeviceBuffer memory = device->allocate(4 * kBytes, "matmul");
  // Small ordinary numbers: 0x3c3c3c3c is about 0.0115.
  stream->fill_async(memory.data(), 2 * kBytes, std::byte{0x3c}, "fill");
  const auto matrix = [&](std::size_t index) {
    return TensorView(memory.data() + index * kBytes, DType::f32, {kSize, kSize});
  };
  ops::OpContext plan = ops::OpContext::planning(*stream);
  ops::linear(plan, matrix(0), matrix(1), matrix(2));
  const DeviceBuffer workspace = device->allocate(plan.peak_bytes(), "workspace");
  ops::OpContext context(*stream, workspace.data(), workspace.size_bytes());
  const double seconds = best_seconds(20, [&] {
    ops::linear(context, matrix(0), matrix(1), matrix(2));
    stream->synchronize();
  });
  return 2.0 * kSize * kSize * kSize / seconds;
}

/// Bytes/s of one thread's memcpy of a buffer larger than the caches.
double memcpy_rate() {
  const std::vector<std::byte> source(256 * kMiB, std::byte{1});
  std::vector<std::byte> destination(source.size());
  const double seconds = best_seconds(5, [&] { std::memcpy(destination.data(), source.data(), source.size()); });
  return static_cast<double>(source.size()) / seconds;
}

/// Multiply-adds count two. Source: shapes of tiny-shapes, see docs/performance.md.
double denoise_flop() {
  constexpr double kTokens = 512 + 64;
  constexpr double kWidth = 160;
  constexpr double kBlocks = 4 + 12;
  constexpr double kWeightsPerToken = (4 + 12) * 13 * kWidth * kWidth;  // both kinds of block: 13 D² per token
  const double linear = 2 * kTokens * kWeightsPerToken;
  const double attention = kBlocks * 4 * kTokens * kTokens * kWidth;
  return 2 * kSteps * (linear + attention);
}

Json run_once(Generator& generator) {
  GenerateRequest request;
  request.prompt = "a red circle on a white background";
  request.num_inference_steps = kSteps;
  request.seed = 11;
  return parse_json(generator.generate(request).report_json, "report");
}

double denoise_ms(const Json& report) {
  return report.at("stages").at(1).at("stream").at("duration_ms");
}

void print_mode(const char* name, const OffloadOptions& options, double flop_rate, double byte_rate) {
  Generator generator(create_cpu_device(), open_pipeline(ModelFolder::open(LAMINA_MODELS_DIR "/tiny-shapes")), options);
  std::vector<Json> reports;
  for (int run = 0; run < kRuns; ++run) reports.push_back(run_once(generator));
  std::ranges::sort(reports, {}, denoise_ms);
  const Json& report = reports[kRuns / 2];
  const Json& stream = report.at("stages").at(1).at("stream");
  const double seconds = denoise_ms(report) / 1e3;
  const double bytes = stream.at("copied_bytes");
  const double floor = std::max(denoise_flop() / flop_rate, bytes / byte_rate);
  double copy_ms = 0;
  for (const Json& unit : stream.at("units")) copy_ms += unit.at("copy_ms").get<double>();
  const Json& prediction = stream.at("prediction");
  fmt::print("{:9} {:>7.3f} s {:>8.1f} {:>6.1f} % {:>9.1f} {:>7.2f} {:>7.1f} ms {:>8} {:>6.2f}\n", name, seconds,
             denoise_flop() / seconds * 1e-9, 100 * denoise_flop() / seconds / flop_rate, bytes / kMiB,
             copy_ms > 0 ? bytes / copy_ms * 1e-6 : 0.0, stream.at("stall_ms").get<double>(),
             prediction.is_null() ? "-" : fmt::format("{:.3f} s", prediction.at("total_ms").get<double>() / 1e3),
             seconds / floor);
  double total = 0;
  for (const Json& stage : report.at("stages")) {
    total += stage.at("duration_ms").get<double>();
    fmt::print("          {}: {:.3f} s\n", stage.at("stage").get<std::string>(),
               stage.at("duration_ms").get<double>() / 1e3);
  }
  fmt::print("          whole picture: {:.3f} s\n", total / 1e3);
}

}  // namespace

int main() {
  const double flop_rate = matmul_rate();
  const double byte_rate = memcpy_rate();
  fmt::print("team of {} threads; ceilings: matmul {:.1f} GFLOP/s, memcpy {:.2f} GB/s; denoising is {:.0f} GFLOP\n\n",
             cpu_team_size(), flop_rate * 1e-9, byte_rate * 1e-9, denoise_flop() * 1e-9);
  fmt::print("{:9} {:>9} {:>8} {:>8} {:>9} {:>7} {:>10} {:>8} {:>6}\n", "mode", "denoise", "GFLOP/s", "ceiling", "MiB",
             "GB/s", "stall", "model", "ratio");
  print_mode("streamed", {.stream = true}, flop_rate, byte_rate);
  print_mode("resident", {}, flop_rate, byte_rate);
}
