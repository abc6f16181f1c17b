#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "gpu_probe/gpu.h"
#include "offload/ring_layout.h"

namespace lamina::probe {

constexpr std::size_t kWarmPasses = 2;

/// One streamed unit: where its image lies in pinned host memory.
struct HostUnit {
  const std::byte* data = nullptr;
  std::size_t size_bytes = 0;
};

/// Means over the passes behind the warm ones; without timing events only `step_ms`, `first_step_ms` and `enqueue_ms`.
struct StreamTimes {
  double step_ms = 0;        ///< median over passes, from the end of the pass before
  double first_step_ms = 0;  ///< of the first pass, from its first enqueue
  double enqueue_ms = 0;     ///< median wall time in which the host enqueues a pass
  double stall_ms = 0;       ///< compute waited this long in a pass
  double copy_ms = 0;        ///< copies were running this long in a pass
  double compute_ms = 0;     ///< compute was running this long in a pass
};

/// The order of copies, compute and events of `offload/weight_ring` and `offload/block_stream`, and nothing else of
/// them: a FIFO of device bytes; compute waits for `ready`, a copy waits for `free` of what it overwrites; the head of
/// the next pass is fetched during this one. With timing, five events a visit carry times, otherwise the two needed
/// ones carry none.
class BareStream {
 public:
  using Compute = std::function<void(std::size_t unit, const std::byte* weights)>;

  BareStream(std::vector<HostUnit> units, std::byte* ring, std::size_t ring_bytes, Timing timing, cudaStream_t copy,
             cudaStream_t compute);

  StreamTimes run(std::size_t passes, const Compute& compute);

 private:
  struct Visit {
    const std::byte* weights = nullptr;
    Event copy_begin, ready, wait_begin, wait_end, free;
  };
  struct Retired {
    RingLayout::Occupant bytes;
    const Event* free;
  };

  std::vector<Visit> create_visits(std::size_t passes) const;
  void mark(const Event& event, cudaStream_t stream) const;
  void prefetch();
  bool try_fetch(std::size_t visit);
  void visit(std::size_t visit, const Compute& compute);
  StreamTimes times(const std::vector<Event>& ends, std::vector<double> enqueue_ms) const;

  std::vector<HostUnit> units_;
  std::byte* ring_;
  RingLayout layout_;
  Timing timing_;
  cudaStream_t copy_;
  cudaStream_t compute_;
  std::vector<Visit> visits_;  // of all passes
  std::vector<Retired> retired_;
  std::size_t next_fetch_ = 0;
  std::size_t announced_ = 0;  // visits before it may be fetched
};

}  // namespace lamina::probe
