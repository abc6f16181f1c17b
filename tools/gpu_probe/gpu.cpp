#include "gpu_probe/gpu.h"

#include <cstdio>

namespace lamina::probe {

void warn(cudaError_t status, const char* what) noexcept {
  if (status != cudaSuccess) std::fprintf(stderr, "%s failed: %s\n", what, cudaGetErrorString(status));
}

DeviceMemory allocate(std::size_t size_bytes) {
  void* data = nullptr;
  check(cudaMalloc(&data, size_bytes));
  return DeviceMemory(static_cast<std::byte*>(data));
}

Stream create_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

Event create_event(Timing timing) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming));
  return Event(event);
}

double elapsed_ms(const Event& begin, const Event& end) {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin.get(), end.get()));
  return ms;
}

double median(std::vector<double> values) {
  expects(!values.empty(), "the median of nothing");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace lamina::probe
