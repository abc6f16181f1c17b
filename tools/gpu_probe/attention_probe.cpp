// Measures cuDNN's forward attention operation at klein 9B's shapes, for the layouts that a block's products give, and
// whether its bytes depend on the run or the process. A measuring program, not product code.
//
//   attention_probe HASHES      file to write one line a shape to: two processes must write the same

#include <cuda_bf16.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "gpu_probe/attention.h"
#include "gpu_probe/check.h"
#include "gpu_probe/gpu.h"
#include "gpu_probe/kernels.h"
#include "gpu_probe/klein.h"
#include "gpu_probe/linear.h"

namespace lamina::probe {
namespace {

constexpr int kRuns = 20;

/// How q, k and v lie in memory: elements from a token to the next, and from q to k and from k to v.
struct Layout {
  const char* name;
  std::int64_t token_stride;
  std::int64_t part_stride;
  std::int64_t out_stride;
};

class AttentionProbe {
 public:
  explicit AttentionProbe(const std::string& hash_file)
      : stream_(create_stream()),
        dnn_(create_dnn_handle(stream_.get())),
        in_(allocate(kInBytes)),
        out_(allocate(kInBytes)),
        sum_(allocate(sizeof(std::uint64_t))),
        hashes_(hash_file) {
    check(fill_random_async(in_.get(), kInBytes, 1.0F, 5, stream_.get()));
  }

  void run() {
    ceiling_ = matrix_ceiling();
    fmt::print("\ncuDNN {}, ceiling {:.0f} TFLOP/s (8192 x 8192 x 8192 product, measured here)\n\n", cudnnGetVersion(),
               ceiling_);
    fmt::print("| tokens | layout | ms | TFLOP/s | ratio to ceiling | {} runs | error | engine | workspace |\n", kRuns);
    fmt::print("|---|---|---|---|---|---|---|---|---|\n");
    for (const std::int64_t tokens : {1536, 4608, 4737, 16'896})
      for (const Layout& layout : {Layout{"q, k, v apart", kWidth, tokens * kWidth, kWidth},
                                   Layout{"rows of [q k v]", 3 * kWidth, kWidth, kWidth},
                                   Layout{"rows of a single block's product", 9 * kWidth, kWidth, 4 * kWidth}})
        row(tokens, layout);
    if (!hashes_.flush()) fail(ErrorCode::unavailable, "the file of hashes could not be written");
  }

 private:
  static constexpr std::size_t kInBytes = std::size_t{16'896} * 9 * kWidth * 2;

  double matrix_ceiling() {
    const BlasHandle blas = create_blas_handle();
    const DeviceMemory workspace = allocate(kBlasWorkspaceBytes);
    const Linear large(blas.get(), {8192, 8192, 8192});
    return tflop_per_s(
        large.shape().flop(), time_ms(stream_.get(), 7, 5, [&](int) {
          large.run_async({in_.get(), in_.get() + large.shape().x_bytes(), out_.get()}, workspace.get(), stream_.get());
        }));
  }

  void row(std::int64_t tokens, const Layout& layout) {
    const AttentionShape shape{.tokens = tokens, .qkv_stride = layout.token_stride, .out_stride = layout.out_stride};
    const Attention attention(dnn_.get(), shape);
    const DeviceMemory workspace = allocate(std::max<std::size_t>(attention.workspace_bytes(), 256));
    const std::byte* q = in_.get();
    const AttentionOperands operands{q, q + 2 * layout.part_stride, q + 4 * layout.part_stride, out_.get()};
    const auto run = [&](int) { attention.run_async(operands, workspace.get()); };
    const double ms = time_ms(stream_.get(), 7, tokens > 10'000 ? 3 : 20, run);
    const double rate = tflop_per_s(shape.flop(), ms);

    const auto out_bytes = static_cast<std::size_t>(tokens * layout.out_stride) * 2;
    const std::uint64_t expected = hash(run, out_bytes);
    int differ = 0;
    for (int i = 0; i < kRuns; ++i) differ += hash(run, out_bytes) != expected ? 1 : 0;
    fmt::print("| {} | {} | {:.4f} | {:.0f} | {:.2f} | {} differ | {:.1e} | {} | {} |\n", tokens, layout.name, ms, rate,
               ceiling_ / rate, differ, sampled_error(tokens, layout), attention.engine(), attention.workspace_bytes());
    hashes_ << fmt::format("{} {} {:016x}\n", tokens, layout.name, expected);
  }

  template <typename Run>
  std::uint64_t hash(Run run, std::size_t out_bytes) {
    check(cudaMemsetAsync(out_.get(), 0xFF, out_bytes, stream_.get()));
    run(0);
    auto* sum = reinterpret_cast<std::uint64_t*>(sum_.get());
    check(cudaMemsetAsync(sum, 0, sizeof(*sum), stream_.get()));
    check(add_hash_async(out_.get(), out_bytes, sum, stream_.get()));
    std::uint64_t value = 0;
    check(cudaMemcpyAsync(&value, sum, sizeof(value), cudaMemcpyDeviceToHost, stream_.get()));
    check(cudaStreamSynchronize(stream_.get()));
    return value;
  }

  /// Of three rows of three heads against a softmax in double. The outputs are those of the last run.
  double sampled_error(std::int64_t tokens, const Layout& layout) {
    double error = 0;
    double norm = 0;
    for (const std::int64_t head : {0, 13, 31}) {
      const auto head_of = [&](std::int64_t part) {
        return columns(in_.get(), part * layout.part_stride + head * kHeadDim, tokens, layout.token_stride);
      };
      const std::vector<float> q = head_of(0);
      const std::vector<float> k = head_of(1);
      const std::vector<float> v = head_of(2);
      const std::vector<float> got = columns(out_.get(), head * kHeadDim, tokens, layout.out_stride);
      for (const std::int64_t token : {std::int64_t{0}, tokens / 2 + 1, tokens - 1}) {
        const std::vector<double> wanted = attend(&q[static_cast<std::size_t>(token * kHeadDim)], k, v);
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          const double difference = got[static_cast<std::size_t>(token * kHeadDim) + i] - wanted[i];
          error += difference * difference;
          norm += wanted[i] * wanted[i];
        }
      }
    }
    return std::sqrt(error / norm);
  }

  static std::vector<double> attend(const float* q, const std::vector<float>& k, const std::vector<float>& v) {
    std::vector<double> out(kHeadDim, 0.0);
    double total = 0;
    for (std::size_t row = 0; row < k.size(); row += kHeadDim) {
      double score = 0;
      for (std::size_t i = 0; i < kHeadDim; ++i) score += static_cast<double>(q[i]) * k[row + i];
      const double weight = std::exp(score / std::sqrt(static_cast<double>(kHeadDim)));
      total += weight;
      for (std::size_t i = 0; i < kHeadDim; ++i) out[i] += weight * v[row + i];
    }
    for (double& value : out) value /= total;
    return out;
  }

  /// One head of all tokens, [tokens, 128].
  static std::vector<float> columns(const std::byte* data, std::int64_t first, std::int64_t tokens,
                                    std::int64_t stride) {
    std::vector<__nv_bfloat16> values(static_cast<std::size_t>(tokens * kHeadDim));
    check(cudaMemcpy2D(values.data(), kHeadDim * 2, data + first * 2, static_cast<std::size_t>(stride) * 2,
                       kHeadDim * 2, static_cast<std::size_t>(tokens), cudaMemcpyDeviceToHost));
    std::vector<float> result;
    result.reserve(values.size());
    for (const __nv_bfloat16 value : values) result.push_back(__bfloat162float(value));
    return result;
  }

  Stream stream_;
  DnnHandle dnn_;
  DeviceMemory in_;
  DeviceMemory out_;
  DeviceMemory sum_;
  std::ofstream hashes_;
  double ceiling_ = 0;
};

}  // namespace
}  // namespace lamina::probe

int main(int argc, char** argv) {
  try {
    if (argc != 2) lamina::fail(lamina::ErrorCode::invalid_argument, "usage: attention_probe HASHES");
    lamina::probe::AttentionProbe(argv[1]).run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "attention_probe: {}\n", error.what());
    return 1;
  }
}
