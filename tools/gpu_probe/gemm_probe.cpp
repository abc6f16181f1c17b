// Measures cuBLASLt on klein 9B's matrix products: rate of the heuristic's first algorithm against a measured ceiling,
// whether a later one is faster, and whether bytes depend on where the weights lie, on the run, on the process or on
// the alignment that the heuristic is told. A measuring program, not product code.
//
//   gemm_probe HASHES      file to write one line a shape to: two processes must write the same

#include <cuda_bf16.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "gpu_probe/check.h"
#include "gpu_probe/gpu.h"
#include "gpu_probe/kernels.h"
#include "gpu_probe/klein.h"
#include "gpu_probe/linear.h"

namespace lamina::probe {
namespace {

constexpr LinearShape kCeiling{8192, 8192, 8192};
constexpr std::size_t kCacheBytes = std::size_t{60} << 20;  // L2 of an H200
constexpr std::size_t kWeightPoolBytes = std::size_t{2} << 30;
constexpr std::size_t kMostActivationBytes = std::size_t{16'896} * 9 * kWidth * 2;
constexpr int kRuns = 20;
/// Where a ring may put weights: any multiple of 256 bytes.
constexpr std::array<std::size_t, 7> kOffsets{256, 768, 4096, 1'048'832, 34'603'520, kSingleBytes, kDoubleBytes};

class GemmProbe {
 public:
  explicit GemmProbe(const std::string& hash_file)
      : stream_(create_stream()),
        blas_(create_blas_handle()),
        weights_(allocate(kWeightPoolBytes)),
        moved_(allocate(kWeightPoolBytes)),
        x_(allocate(kMostActivationBytes)),
        y_(allocate(kMostActivationBytes)),
        workspace_(allocate(kBlasWorkspaceBytes)),
        sum_(allocate(sizeof(std::uint64_t))),
        hashes_(hash_file) {
    check(fill_random_async(weights_.get(), kWeightPoolBytes, 0.02F, 1, stream_.get()));
    check(fill_random_async(x_.get(), kMostActivationBytes, 1.0F, 2, stream_.get()));
  }

  void run() {
    const Linear large(blas_.get(), kCeiling);
    ceiling_ = tflop_per_s(kCeiling.flop(), time_of(large));
    fmt::print("\ncuBLASLt {}, ceiling {:.0f} TFLOP/s: 8192 x 8192 x 8192, bf16, random data, {}\n\n",
               cublasLtGetVersion(), ceiling_, large.algorithm());
    fmt::print(
        "| product | tokens | weights | ms | TFLOP/s | ratio to ceiling | best of the heuristic's, gain | "
        "{} ring offsets | {} runs | alignments 16, 64, 128 | error | algorithm |\n",
        kOffsets.size(), kRuns);
    fmt::print("|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (const std::int64_t pixels : {512, 1024, 2048}) {
      for (const BlockLinear& linear : double_block_linears(pixels))
        if (pixels == 512 || linear.shape.tokens != kTextTokens) row(linear.name, linear.shape);
      for (const BlockLinear& linear : single_block_linears(pixels)) row(linear.name, linear.shape);
    }
    fmt::print(
        "\nChoices: the heuristic's algorithms in its order, the first once more at the end; in brackets tile, custom, "
        "cluster, split-k.\n\n| product | tokens | ms |\n|---|---|---|\n{}",
        choices_);
    if (!hashes_.flush()) fail(ErrorCode::unavailable, "the file of hashes could not be written");
  }

 private:
  void row(const std::string& name, const LinearShape& shape) {
    const Linear linear(blas_.get(), shape);
    const double ms = time_of(linear);
    const double rate = tflop_per_s(shape.flop(), ms);
    const std::uint64_t expected = hash(linear, 0);
    fmt::print("| {} | {} | [{}, {}] | {:.4f} | {:.0f} | {:.2f} | {} | {} differ | {} differ | {} | {:.1e} | {} |\n",
               name, shape.tokens, shape.out, shape.in, ms, rate, ceiling_ / rate, best(name, shape, ms),
               offsets_that_differ(linear, expected), runs_that_differ(linear, expected), alignments(linear),
               sampled_error(shape), linear.algorithm());
    hashes_ << fmt::format("{} {} {:016x} {}\n", name, shape.tokens, expected, linear.algorithm());
  }

  /// Rotates among weights so that they come from memory and not from the cache.
  double time_of(const Linear& linear) {
    const std::size_t w_bytes = linear.shape().w_bytes();
    const std::size_t copies = std::min(kWeightPoolBytes / w_bytes, 3 * kCacheBytes / w_bytes + 1);
    const int calls = std::clamp(static_cast<int>(5e12 / linear.shape().flop()), 4, 40);
    return time_ms(stream_.get(), 7, calls, [&](int call) {
      const std::byte* w = weights_.get() + static_cast<std::size_t>(call) % copies * w_bytes;
      linear.run_async({x_.get(), w, y_.get()}, workspace_.get(), stream_.get());
    });
  }

  std::string best(const std::string& name, const LinearShape& shape, double first_ms) {
    const int choices = Linear::choices(blas_.get(), shape);
    int best = 0;
    double best_ms = first_ms;
    choices_ += fmt::format("| {} | {} | ", name, shape.tokens);
    for (int choice = 0; choice < choices; ++choice) {
      const Linear linear(blas_.get(), shape, 256, choice);
      const double ms = choice == 0 ? first_ms : time_of(linear);
      if (ms < best_ms) best = choice;
      best_ms = std::min(best_ms, ms);
      choices_ += fmt::format("{:.4f} ({}) ", ms, linear.short_algorithm());
    }
    choices_ += fmt::format("{:.4f} |\n", time_of(Linear(blas_.get(), shape)));
    return fmt::format("{} of {}, {:.3f}", best, choices, first_ms / best_ms);
  }

  /// The weights that begin the pool, moved by `offset` bytes. The output is NaN before.
  std::uint64_t hash(const Linear& linear, std::size_t offset) {
    const std::size_t w_bytes = linear.shape().w_bytes();
    std::byte* w = weights_.get();
    if (offset > 0) {
      w = moved_.get() + offset;
      check(cudaMemcpyAsync(w, weights_.get(), w_bytes, cudaMemcpyDeviceToDevice, stream_.get()));
    }
    const std::size_t y_bytes = linear.shape().y_bytes();
    check(cudaMemsetAsync(y_.get(), 0xFF, y_bytes, stream_.get()));
    linear.run_async({x_.get(), w, y_.get()}, workspace_.get(), stream_.get());
    auto* sum = reinterpret_cast<std::uint64_t*>(sum_.get());
    check(cudaMemsetAsync(sum, 0, sizeof(*sum), stream_.get()));
    check(add_hash_async(y_.get(), y_bytes, sum, stream_.get()));
    std::uint64_t value = 0;
    check(cudaMemcpyAsync(&value, sum, sizeof(value), cudaMemcpyDeviceToHost, stream_.get()));
    check(cudaStreamSynchronize(stream_.get()));
    return value;
  }

  std::ptrdiff_t offsets_that_differ(const Linear& linear, std::uint64_t expected) {
    return std::ranges::count_if(kOffsets, [&](std::size_t offset) { return hash(linear, offset) != expected; });
  }

  int runs_that_differ(const Linear& linear, std::uint64_t expected) {
    int differ = 0;
    for (int run = 0; run < kRuns; ++run) differ += hash(linear, 0) != expected ? 1 : 0;
    return differ;
  }

  std::string alignments(const Linear& linear) {
    std::string result;
    for (const std::uint32_t alignment : {16U, 64U, 128U})
      result += linear.same_algorithm(Linear(blas_.get(), linear.shape(), alignment)) ? "same " : "other ";
    return result;
  }

  /// Of some outputs against sums in double, relative to their norm. The outputs are those of the last run.
  double sampled_error(const LinearShape& shape) {
    double error = 0;
    double norm = 0;
    for (std::int64_t sample = 0; sample < 32; ++sample) {
      const std::int64_t token = sample * 7919 % shape.tokens;
      const std::int64_t feature = sample * 104'729 % shape.out;
      const auto x = row_of(x_.get(), token, shape.in);
      const auto w = row_of(weights_.get(), feature, shape.in);
      double wanted = 0;
      for (std::size_t i = 0; i < x.size(); ++i) wanted += x[i] * w[i];
      const double got = row_of(y_.get(), token, shape.out)[static_cast<std::size_t>(feature)];
      error += (got - wanted) * (got - wanted);
      norm += wanted * wanted;
    }
    return std::sqrt(error / norm);
  }

  static std::vector<double> row_of(const std::byte* matrix, std::int64_t row, std::int64_t width) {
    std::vector<__nv_bfloat16> values(static_cast<std::size_t>(width));
    check(cudaMemcpy(values.data(), matrix + row * width * 2, values.size() * 2, cudaMemcpyDeviceToHost));
    std::vector<double> result;
    for (const __nv_bfloat16 value : values) result.push_back(__bfloat162float(value));
    return result;
  }

  Stream stream_;
  BlasHandle blas_;
  DeviceMemory weights_;
  DeviceMemory moved_;
  DeviceMemory x_;
  DeviceMemory y_;
  DeviceMemory workspace_;
  DeviceMemory sum_;
  std::ofstream hashes_;
  std::string choices_;
  double ceiling_ = 0;
};

}  // namespace
}  // namespace lamina::probe

int main(int argc, char** argv) {
  try {
    if (argc != 2) lamina::fail(lamina::ErrorCode::invalid_argument, "usage: gemm_probe HASHES");
    lamina::probe::GemmProbe(argv[1]).run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "gemm_probe: {}\n", error.what());
    return 1;
  }
}
