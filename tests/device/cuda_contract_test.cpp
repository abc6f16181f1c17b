#include <latch>

#include "device/cuda/cuda_device.h"
#include "device_contract.h"

namespace lamina::testing {
namespace {

struct CudaFactory {
  static constexpr bool kSkipsDeviceWorkBehindAnError = false;

  static std::unique_ptr<Device> create(std::optional<std::size_t> memory_limit_bytes = {}) {
    return create_cuda_device({.memory_limit_bytes = memory_limit_bytes});
  }

  static std::function<void()> block(Stream& stream) {
    auto latch = std::make_shared<std::latch>(1);
    stream.run_on_host_async({"block", {}, {}}, [latch] { latch->wait(); });
    return [latch] { latch->count_down(); };
  }

  static void enqueue_failure(Stream& stream) {
    stream.run_on_host_async({"failure", {}, {}}, [] { throw std::runtime_error("planted"); });
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, DeviceContract, CudaFactory);

}  // namespace
}  // namespace lamina::testing
