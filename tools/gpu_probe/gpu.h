#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "gpu_probe/check.h"

namespace lamina::probe {

/// For destructors: says on stderr what failed, and goes on.
void warn(cudaError_t status, const char* what) noexcept;

struct FreeDeviceMemory {
  void operator()(std::byte* data) const noexcept { warn(cudaFree(data), "cudaFree"); }
};
struct DestroyStream {
  void operator()(cudaStream_t stream) const noexcept { warn(cudaStreamDestroy(stream), "cudaStreamDestroy"); }
};
struct DestroyEvent {
  void operator()(cudaEvent_t event) const noexcept { warn(cudaEventDestroy(event), "cudaEventDestroy"); }
};

using DeviceMemory = std::unique_ptr<std::byte, FreeDeviceMemory>;
using Stream = std::unique_ptr<CUstream_st, DestroyStream>;
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

enum class Timing { on, off };

DeviceMemory allocate(std::size_t size_bytes);
/// Not synchronised with the default stream.
Stream create_stream();
Event create_event(Timing timing);

/// Both events were reached.
double elapsed_ms(const Event& begin, const Event& end);
double median(std::vector<double> values);

/// Median time of one call, over `repeats` batches of `calls` calls enqueued back to back, after one untimed batch.
/// `enqueue(i)` gets the number of the call, so that it can rotate among inputs.
template <typename Enqueue>
double time_ms(cudaStream_t stream, int repeats, int calls, Enqueue enqueue) {
  const Event begin = create_event(Timing::on);
  const Event end = create_event(Timing::on);
  std::vector<double> times;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    check(cudaEventRecord(begin.get(), stream));
    for (int call = 0; call < calls; ++call) enqueue(call);
    check(cudaEventRecord(end.get(), stream));
    check(cudaEventSynchronize(end.get()));
    if (repeat > 0) times.push_back(elapsed_ms(begin, end) / calls);
  }
  return median(std::move(times));
}

/// Wall time of host work.
template <typename Work>
double host_ms(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

inline double gb_per_s(std::size_t size_bytes, double ms) {
  return static_cast<double>(size_bytes) / ms / 1e6;
}

inline double tflop_per_s(double flop, double ms) {
  return flop / ms / 1e9;
}

}  // namespace lamina::probe
