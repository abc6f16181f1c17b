#include <latch>

#include "device/cpu/cpu_device.h"
#include "device/cpu/cpu_stream.h"
#include "device_contract.h"

namespace lamina::testing {
namespace {

struct CpuFactory {
  static constexpr bool kSkipsDeviceWorkBehindAnError = true;

  static std::unique_ptr<Device> create(std::optional<std::size_t> memory_limit_bytes = {}) {
    return create_cpu_device(
        {.memory_limit_bytes = memory_limit_bytes, .host_memory = {}, .virtual_cost = {}, .faults = {}});
  }

  static std::function<void()> block(Stream& stream) {
    auto latch = std::make_shared<std::latch>(1);
    cpu::launch(stream, {"block", {}, {}}, [latch] { latch->wait(); });
    return [latch] { latch->count_down(); };
  }

  static void enqueue_failure(Stream& stream) {
    cpu::launch(stream, {"failure", {}, {}}, [] { throw std::runtime_error("planted"); });
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Cpu, DeviceContract, CpuFactory);

}  // namespace
}  // namespace lamina::testing
