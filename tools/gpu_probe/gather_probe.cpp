// Compares ways to all-gather a stream unit over the GPUs of a host, alone and while the devices compute:
//
//   gather_probe [GPUS]      (unset: all)
//
// Every way fills the same image: a unit's bytes, of which each GPU copied its piece from pinned memory. Beside the
// rate of gathers alone stands what products of a large layer take while units come; the last column is what one gather
// takes from them. A measuring program, not product code.

#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu_probe/check.h"
#include "gpu_probe/gpu.h"
#include "gpu_probe/kernels.h"
#include "gpu_probe/linear.h"
#include "gpu_probe/pinned.h"

namespace lamina::probe {
namespace {

constexpr std::size_t kUnitBytes = 872'415'232;           // a double block of klein 9B, in 4 KiB pieces of 2 to 8 GPUs
constexpr std::size_t kHostBytes = std::size_t{8} << 30;  // of a GPU's shards
constexpr LinearShape kShape{.tokens = 4608, .out = 12288, .in = 4096};
constexpr int kUnits = 20;
constexpr int kProducts = 400;
constexpr int kRounds = 5;

void check_nccl(ncclResult_t result, std::source_location where = std::source_location::current()) {
  if (result != ncclSuccess) fail_call("NCCL", ncclGetErrorString(result), where);
}

/// Where pieces are copied from: more of the host's memory than its caches and address translation hold.
struct Shards {
  explicit Shards(Pages kind) : pages(Mapping::anonymous(kHostBytes, kind)) {}

  Mapping pages;
  Registration registration{pages.data(), kHostBytes};
};

/// One GPU with a unit's image in its memory, its shards on the host, and the operands of a product.
class Gpu {
 public:
  Gpu(int index, std::size_t gpus) : index_(index), piece_bytes_(kUnitBytes / gpus) {
    make_current();
    for (Stream* stream : {&compute, &copy, &comm}) *stream = create_stream();
    for (Event* event : {&copied, &gathered}) *event = create_event(Timing::off);
    for (Event* event : {&begin, &end}) *event = create_event(Timing::on);
    void* image = nullptr;
    check_nccl(ncclMemAlloc(&image, kUnitBytes));
    image_ = static_cast<std::byte*>(image);
    blas_ = create_blas_handle();
    linear_.emplace(blas_.get(), kShape);
    workspace_ = allocate(kBlasWorkspaceBytes);
    x_ = random(kShape.x_bytes());
    w_ = random(kShape.w_bytes());
    y_ = allocate(kShape.y_bytes());
    check(cudaDeviceSynchronize());
  }

  void make_current() const { check(cudaSetDevice(index_)); }
  int index() const { return index_; }
  std::byte* image() const { return image_; }
  std::byte* piece() const { return image_ + static_cast<std::size_t>(index_) * piece_bytes_; }
  std::size_t piece_bytes() const { return piece_bytes_; }

  void take_shards(Pages kind) {
    shards_.reset();
    shards_ = std::make_unique<Shards>(kind);
  }

  void copy_piece(int unit) {
    const std::size_t place = static_cast<std::size_t>(unit) % (kHostBytes / piece_bytes_);
    check(cudaStreamWaitEvent(copy.get(), gathered.get()));
    check(cudaMemcpyAsync(piece(), shards_->pages.data() + place * piece_bytes_, piece_bytes_, cudaMemcpyHostToDevice,
                          copy.get()));
    check(cudaEventRecord(copied.get(), copy.get()));
    check(cudaStreamWaitEvent(comm.get(), copied.get()));
  }

  void multiply() const { linear_->run_async({x_.get(), w_.get(), y_.get()}, workspace_.get(), compute.get()); }

  Stream compute;
  Stream copy;
  Stream comm;
  Event copied;
  Event gathered;
  Event begin;
  Event end;

 private:
  DeviceMemory random(std::size_t size_bytes) const {
    DeviceMemory memory = allocate(size_bytes);
    check(fill_random_async(memory.get(), size_bytes, 0.1F, 1, compute.get()));
    return memory;
  }

  int index_;
  std::size_t piece_bytes_;
  std::byte* image_ = nullptr;  // lives as long as the process
  std::unique_ptr<Shards> shards_;
  BlasHandle blas_;
  std::optional<Linear> linear_;
  DeviceMemory workspace_;
  DeviceMemory x_;
  DeviceMemory w_;
  DeviceMemory y_;
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
  check_nccl(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.CTAPolicy = options.policy;
  if (options.most_ctas > 0) config.maxCTAs = options.most_ctas;
  check_nccl(ncclGroupStart());
  for (const auto& gpu : gpus) {
    gpu->make_current();
    check_nccl(ncclCommInitRankConfig(&comms[static_cast<std::size_t>(gpu->index())], static_cast<int>(gpus.size()), id,
                                      gpu->index(), &config));
  }
  check_nccl(ncclGroupEnd());
  if (options.window) {
    std::vector<ncclWindow_t> windows(gpus.size());
    check_nccl(ncclGroupStart());
    for (const auto& gpu : gpus) {
      gpu->make_current();
      const auto rank = static_cast<std::size_t>(gpu->index());
      check_nccl(
          ncclCommWindowRegister(comms[rank], gpu->image(), kUnitBytes, &windows[rank], NCCL_WIN_COLL_SYMMETRIC));
    }
    check_nccl(ncclGroupEnd());
  }
  return [&gpus, comms] {
    check_nccl(ncclGroupStart());
    for (const auto& gpu : gpus)
      check_nccl(ncclAllGather(gpu->piece(), gpu->image(), gpu->piece_bytes(), ncclInt8,
                               comms[static_cast<std::size_t>(gpu->index())], gpu->comm.get()));
    check_nccl(ncclGroupEnd());
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
        check(cudaEventRecord(events[static_cast<std::size_t>(gpu->index())], gpu->comm.get()));
      }
    };
    const auto wait_for_all = [&](const std::vector<cudaEvent_t>& events) {
      for (const auto& gpu : gpus)
        for (cudaEvent_t event : events) check(cudaStreamWaitEvent(gpu->comm.get(), event));
    };
    record(*ready);
    wait_for_all(*ready);
    for (const auto& gpu : gpus) {
      gpu->make_current();
      for (const auto& peer : gpus)
        if (peer != gpu)
          check(cudaMemcpyPeerAsync(peer->image() + (gpu->piece() - gpu->image()), peer->index(), gpu->piece(),
                                    gpu->index(), gpu->piece_bytes(), gpu->comm.get()));
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

/// Milliseconds between two points of a stream of GPU 0 with `work` enqueued between them.
double time_ms(const Gpus& gpus, const Stream& stream, const std::function<void()>& work) {
  const Gpu& first = *gpus.front();
  synchronize(gpus);
  first.make_current();
  check(cudaEventRecord(first.begin.get(), stream.get()));
  work();
  first.make_current();
  check(cudaEventRecord(first.end.get(), stream.get()));
  synchronize(gpus);
  return elapsed_ms(first.begin, first.end);
}

void enqueue_products(const Gpus& gpus) {
  for (const auto& gpu : gpus) {
    gpu->make_current();
    for (int i = 0; i < kProducts; ++i) gpu->multiply();
  }
}

/// Units come one behind the other, each once its predecessor is whole.
void enqueue_units(const Gpus& gpus, const Gather& gather) {
  for (int unit = 0; unit < kUnits; ++unit) {
    for (const auto& gpu : gpus) {
      gpu->make_current();
      gpu->copy_piece(unit);
    }
    if (gather) gather();
    for (const auto& gpu : gpus) {
      gpu->make_current();
      check(cudaEventRecord(gpu->gathered.get(), gpu->comm.get()));
    }
  }
}

double products_ms(const Gpus& gpus, const Gather& gather) {
  return time_ms(gpus, gpus.front()->compute, [&] {
    enqueue_units(gpus, gather);
    enqueue_products(gpus);
  });
}

/// Gigabytes that each of `gpus` copies from its host in a second.
double link_rate(const Gpus& gpus, std::size_t count) {
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round) {
    const double elapsed = time_ms(gpus, gpus.front()->copy, [&] {
      for (std::size_t i = 0; i < count; ++i) {
        gpus[i]->make_current();
        for (int unit = 0; unit < kUnits; ++unit) gpus[i]->copy_piece(unit);
      }
    });
    rates.push_back(gb_per_s(kUnits * gpus.front()->piece_bytes(), elapsed));
  }
  return median(rates);
}

void print_link_rates(const Gpus& gpus) {
  fmt::print("| host pages | a link alone, GB/s | each of all, GB/s |\n|---|---|---|\n");
  for (const auto& [name, kind] : {std::pair("small", Pages::touched), std::pair("huge", Pages::huge)}) {
    for (const auto& gpu : gpus) gpu->take_shards(kind);
    const double alone = link_rate(gpus, 1);
    fmt::print("| {} | {:.2f} | {:.2f} |\n", name, alone, link_rate(gpus, gpus.size()));
  }
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
    const double all_ms = time_ms(gpus, gpus.front()->comm, [&] {
      for (int i = 0; i < kUnits; ++i) row.gather();
    });
    row.gather_ms.push_back(all_ms / kUnits);
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
    } catch (const std::exception& error) {
      fmt::print("{}: {}\n", name, error.what());
    }
  }
  return rows;
}

void run(std::size_t count) {
  Gpus gpus;
  for (std::size_t i = 0; i < count; ++i) gpus.push_back(std::make_unique<Gpu>(static_cast<int>(i), count));
  fmt::print("{} GPUs\n\n", count);
  print_link_rates(gpus);
  std::vector<Row> rows = rows_of(gpus);
  for (Row& row : rows) measure(gpus, row);  // to warm up
  for (Row& row : rows) row.gather_ms = row.products_ms = {};
  std::vector<double> alone_ms;
  for (int round = 0; round < kRounds; ++round) {
    alone_ms.push_back(time_ms(gpus, gpus.front()->compute, [&] { enqueue_products(gpus); }));
    for (Row& row : rows) measure(gpus, row);
  }
  const double copying_ms = median(rows.front().products_ms);
  fmt::print("\nunit of {} bytes, medians of {} rounds; {} products take {:.2f} ms alone\n\n", kUnitBytes, kRounds,
             kProducts, median(alone_ms));
  fmt::print("| gathered by | ms | GB/s | products ms | a gather takes from them, ms |\n|---|---|---|---|---|\n");
  for (const Row& row : rows) {
    const double gather_ms = row.gather ? median(row.gather_ms) : 0;
    const double busy_ms = median(row.products_ms);
    fmt::print("| {} | {:.3f} | {:.0f} | {:.2f} | {:.3f} |\n", row.name, gather_ms,
               row.gather ? gb_per_s(kUnitBytes, gather_ms) : 0, busy_ms, (busy_ms - copying_ms) / kUnits);
  }
}

int devices_present() {
  int count = 0;
  check(cudaGetDeviceCount(&count));
  return count;
}

}  // namespace
}  // namespace lamina::probe

int main(int argc, char** argv) {
  try {
    const int gpus = argc > 1 ? std::atoi(argv[1]) : lamina::probe::devices_present();
    if (gpus < 2) lamina::fail(lamina::ErrorCode::unavailable, "{} GPUs: a gather takes two at least", gpus);
    lamina::probe::run(static_cast<std::size_t>(gpus));
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "gather_probe: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
