// Compares ways to all-gather a stream unit over GPUs of one host, alone and while the devices compute:
//
//   lamina_gather_bench GPUS
//
// Every way fills the same image: a unit's worth of bytes, of which each GPU copied its piece from pinned memory.
// Beside the rate of gathers alone stand what products of a large layer take by themselves, while pieces are copied,
// and while they are copied and gathered; the last column is what one gather takes from the computing.

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kUnitBytes = std::size_t{832} << 20;  // a double block of klein 9B
constexpr int kGathers = 20;
constexpr int kRows = 4608;  // tokens of a picture of 1024 px
constexpr int kIn = 4096;
constexpr int kOut = 12288;
constexpr int kProducts = 400;
constexpr int kRounds = 9;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(cublasGetStatusString(status));
}

void check(ncclResult_t result) {
  if (result != ncclSuccess) throw std::runtime_error(ncclGetErrorString(result));
}

/// One GPU with a unit's image in its memory, the own piece on the host, and the operands of a product.
class Gpu {
 public:
  Gpu(int index, std::size_t gpus) : index_(index), piece_bytes_(kUnitBytes / gpus) {
    make_current();
    for (cudaStream_t* stream : {&compute, &copy, &comm})
      check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    for (cudaEvent_t* event : {&copied, &gathered}) check(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    for (cudaEvent_t* event : {&begin, &end}) check(cudaEventCreate(event));
    check(ncclMemAlloc(&image_, kUnitBytes));
    check(cudaMallocHost(&host_, piece_bytes_));
    check(cublasCreate(&blas_));
    check(cublasSetStream(blas_, compute));
    fill_operands();
  }

  void make_current() const { check(cudaSetDevice(index_)); }
  int index() const { return index_; }
  char* image() const { return static_cast<char*>(image_); }
  char* piece() const { return image() + static_cast<std::size_t>(index_) * piece_bytes_; }
  std::size_t piece_bytes() const { return piece_bytes_; }

  void copy_piece() {
    check(cudaStreamWaitEvent(copy, gathered));
    check(cudaMemcpyAsync(piece(), host_, piece_bytes_, cudaMemcpyHostToDevice, copy));
    check(cudaEventRecord(copied, copy));
    check(cudaStreamWaitEvent(comm, copied));
  }

  void multiply() {
    const float one = 1.0F;
    const float zero = 0.0F;
    check(cublasGemmEx(blas_, CUBLAS_OP_T, CUBLAS_OP_N, kOut, kRows, kIn, &one, weight_, CUDA_R_16BF, kIn, x_,
                       CUDA_R_16BF, kIn, &zero, y_, CUDA_R_16BF, kOut, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  }

  cudaStream_t compute = nullptr;
  cudaStream_t copy = nullptr;
  cudaStream_t comm = nullptr;
  cudaEvent_t copied = nullptr;
  cudaEvent_t gathered = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;

 private:
  void* upload(std::size_t values) {
    std::mt19937 engine(1);
    std::vector<std::uint16_t> bits(values);
    std::ranges::generate(bits, [&] { return static_cast<std::uint16_t>(0x3C00U + (engine() & 0x83FFU)); });
    void* data = nullptr;
    check(cudaMalloc(&data, values * sizeof(std::uint16_t)));
    check(cudaMemcpy(data, bits.data(), values * sizeof(std::uint16_t), cudaMemcpyHostToDevice));
    return data;
  }

  void fill_operands() {
    x_ = upload(std::size_t{kRows} * kIn);
    weight_ = upload(std::size_t{kOut} * kIn);
    check(cudaMalloc(&y_, std::size_t{kRows} * kOut * sizeof(std::uint16_t)));
  }

  int index_;
  std::size_t piece_bytes_;
  void* image_ = nullptr;
  void* host_ = nullptr;
  void* x_ = nullptr;
  void* weight_ = nullptr;
  void* y_ = nullptr;
  cublasHandle_t blas_ = nullptr;
};

using Gpus = std::vector<std::unique_ptr<Gpu>>;

/// Enqueues one gather of all images on the GPUs' comm streams.
using Gather = std::function<void()>;

struct NcclOptions {
  int policy = NCCL_CTA_POLICY_DEFAULT;
  int most_ctas = 0;    ///< 0: as NCCL likes
  bool window = false;  ///< the images are registered with the group
};

Gather by_nccl(const Gpus& gpus, const NcclOptions& options) {
  std::vector<ncclComm_t> comms(gpus.size());
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.CTAPolicy = options.policy;
  if (options.most_ctas > 0) config.maxCTAs = options.most_ctas;
  check(ncclGroupStart());
  for (const auto& gpu : gpus) {
    gpu->make_current();
    check(ncclCommInitRankConfig(&comms[static_cast<std::size_t>(gpu->index())], static_cast<int>(gpus.size()), id,
                                 gpu->index(), &config));
  }
  check(ncclGroupEnd());
  if (options.window) {
    std::vector<ncclWindow_t> windows(gpus.size());
    check(ncclGroupStart());
    for (const auto& gpu : gpus) {
      gpu->make_current();
      const auto rank = static_cast<std::size_t>(gpu->index());
      check(ncclCommWindowRegister(comms[rank], gpu->image(), kUnitBytes, &windows[rank], NCCL_WIN_COLL_SYMMETRIC));
    }
    check(ncclGroupEnd());
  }
  return [&gpus, comms] {
    check(ncclGroupStart());
    for (const auto& gpu : gpus)
      check(ncclAllGather(gpu->piece(), gpu->image(), gpu->piece_bytes(), ncclInt8,
                          comms[static_cast<std::size_t>(gpu->index())], gpu->comm));
    check(ncclGroupEnd());
  };
}

/// Each GPU's copy engines push its piece to the others, once these may be written; an image is whole when all pushed.
Gather by_peer_copies(const Gpus& gpus) {
  for (const auto& gpu : gpus)
    for (const auto& peer : gpus) {
      if (peer == gpu) continue;
      gpu->make_current();
      const cudaError_t status = cudaDeviceEnablePeerAccess(peer->index(), 0);
      if (status != cudaErrorPeerAccessAlreadyEnabled) check(status);
      static_cast<void>(cudaGetLastError());
    }
  auto ready = std::make_shared<std::vector<cudaEvent_t>>();
  auto pushed = std::make_shared<std::vector<cudaEvent_t>>();
  for (const auto& gpu : gpus) {
    gpu->make_current();
    for (const auto& events : {ready, pushed})
      check(cudaEventCreateWithFlags(&events->emplace_back(), cudaEventDisableTiming));
  }
  return [&gpus, ready, pushed] {
    const auto record = [&](std::vector<cudaEvent_t>& events) {
      for (const auto& gpu : gpus) {
        gpu->make_current();
        check(cudaEventRecord(events[static_cast<std::size_t>(gpu->index())], gpu->comm));
      }
    };
    const auto wait_for_all = [&](const std::vector<cudaEvent_t>& events) {
      for (const auto& gpu : gpus)
        for (cudaEvent_t event : events) check(cudaStreamWaitEvent(gpu->comm, event));
    };
    record(*ready);
    wait_for_all(*ready);
    for (const auto& gpu : gpus) {
      gpu->make_current();
      for (const auto& peer : gpus)
        if (peer != gpu)
          check(cudaMemcpyPeerAsync(peer->image() + (gpu->piece() - gpu->image()), peer->index(), gpu->piece(),
                                    gpu->index(), gpu->piece_bytes(), gpu->comm));
    }
    record(*pushed);
    wait_for_all(*pushed);
  };
}

void synchronize(const Gpus& gpus) {
  for (const auto& gpu : gpus) {
    gpu->make_current();
    check(cudaDeviceSynchronize());
  }
}

/// Milliseconds between two points of GPU 0's stream with `work` enqueued between them.
double time_ms(const Gpus& gpus, cudaStream_t Gpu::*stream, const std::function<void()>& work) {
  synchronize(gpus);
  Gpu& first = *gpus.front();
  first.make_current();
  check(cudaEventRecord(first.begin, first.*stream));
  work();
  first.make_current();
  check(cudaEventRecord(first.end, first.*stream));
  synchronize(gpus);
  float elapsed = 0;
  check(cudaEventElapsedTime(&elapsed, first.begin, first.end));
  return elapsed;
}

void enqueue_products(const Gpus& gpus) {
  for (const auto& gpu : gpus) {
    gpu->make_current();
    for (int i = 0; i < kProducts; ++i) gpu->multiply();
  }
}

/// Units come one behind the other, each once its predecessor is whole.
void enqueue_units(const Gpus& gpus, const Gather& gather) {
  for (int unit = 0; unit < kGathers; ++unit) {
    for (const auto& gpu : gpus) {
      gpu->make_current();
      gpu->copy_piece();
    }
    if (gather) gather();
    for (const auto& gpu : gpus) {
      gpu->make_current();
      check(cudaEventRecord(gpu->gathered, gpu->comm));
    }
  }
}

double products_ms(const Gpus& gpus, const Gather& gather) {
  return time_ms(gpus, &Gpu::compute, [&] {
    enqueue_units(gpus, gather);
    enqueue_products(gpus);
  });
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Gigabytes that each of `gpus` copies from its host in a second.
double link_rate(const Gpus& gpus, std::size_t count) {
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round) {
    const double elapsed = time_ms(gpus, &Gpu::copy, [&] {
      for (std::size_t i = 0; i < count; ++i) {
        gpus[i]->make_current();
        for (int piece = 0; piece < kGathers; ++piece) gpus[i]->copy_piece();
      }
    });
    rates.push_back(static_cast<double>(kGathers * gpus.front()->piece_bytes()) / elapsed / 1e6);
  }
  return median(rates);
}

/// What is measured of one way, round by round, so that no way has the cooler devices to itself.
struct Row {
  std::string name;
  Gather gather;
  std::vector<double> gather_ms;
  std::vector<double> products_ms;
};

void measure(const Gpus& gpus, Row& row) {
  if (row.gather) {
    const double all_ms = time_ms(gpus, &Gpu::comm, [&] {
      for (int i = 0; i < kGathers; ++i) row.gather();
    });
    row.gather_ms.push_back(all_ms / kGathers);
  }
  row.products_ms.push_back(products_ms(gpus, row.gather));
}

std::vector<Row> rows_of(const Gpus& gpus) {
  const std::vector<std::pair<std::string, std::function<Gather()>>> ways{
      {"nothing, pieces are copied", [] { return Gather(); }},
      {"NCCL", [&] { return by_nccl(gpus, {}); }},
      {"NCCL, at most 4 CTAs", [&] { return by_nccl(gpus, {.most_ctas = 4}); }},
      {"NCCL, registered window", [&] { return by_nccl(gpus, {.window = true}); }},
      {"NCCL, zero CTA, registered window",
       [&] { return by_nccl(gpus, {.policy = NCCL_CTA_POLICY_ZERO, .window = true}); }},
      {"copy engines, peer to peer", [&] { return by_peer_copies(gpus); }}};
  std::vector<Row> rows;
  for (const auto& [name, create] : ways) {
    try {
      rows.push_back({name, create(), {}, {}});
    } catch (const std::runtime_error& error) {
      fmt::print("{}: {}\n", name, error.what());
    }
  }
  return rows;
}

void run(std::size_t count) {
  Gpus gpus;
  for (std::size_t i = 0; i < count; ++i) gpus.push_back(std::make_unique<Gpu>(static_cast<int>(i), count));
  std::vector<Row> rows = rows_of(gpus);
  for (Row& row : rows) measure(gpus, row);  // to warm up
  for (Row& row : rows) row.gather_ms = row.products_ms = {};
  std::vector<double> alone_ms;
  for (int round = 0; round < kRounds; ++round) {
    alone_ms.push_back(time_ms(gpus, &Gpu::compute, [&] { enqueue_products(gpus); }));
    for (Row& row : rows) measure(gpus, row);
  }
  const double copying_ms = median(rows.front().products_ms);
  fmt::print("{} GPUs, unit of {} bytes, medians of {} rounds\n", count, kUnitBytes, kRounds);
  fmt::print("a link brings {:.2f} GB/s to one GPU alone, {:.2f} GB/s to each of all\n", link_rate(gpus, 1),
             link_rate(gpus, count));
  fmt::print("{} products take {:.2f} ms alone\n\n", kProducts, median(alone_ms));
  fmt::print("| gathered by | ms | GB/s | products ms | a gather takes from them, ms |\n|---|---|---|---|---|\n");
  for (const Row& row : rows) {
    const double gather_ms = row.gather ? median(row.gather_ms) : 0;
    const double busy_ms = median(row.products_ms);
    fmt::print("| {} | {:.3f} | {:.0f} | {:.2f} | {:.3f} |\n", row.name, gather_ms,
               row.gather ? static_cast<double>(kUnitBytes) / gather_ms / 1e6 : 0, busy_ms,
               (busy_ms - copying_ms) / kGathers);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int gpus = argc == 2 ? std::atoi(argv[1]) : 0;
    if (gpus < 2) throw std::runtime_error("usage: lamina_gather_bench GPUS, at least 2");
    run(static_cast<std::size_t>(gpus));
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "lamina_gather_bench: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
