#include "device/cpu/cpu_device.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "device/cpu/cpu_event.h"
#include "device/cpu/cpu_runtime.h"
#include "device/cpu/make_stream.h"
#include "device/cpu/team_size.h"
#include "device/stream.h"

namespace lamina {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kFreshByte = 0xFF;  // NaN in f32 and bf16: reading what nobody has written does not go unnoticed

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(CpuDeviceOptions options)
      : Device(DeviceKind::cpu, "cpu", options.memory_limit_bytes, options.host_memory), runtime_(std::move(options)) {}

  cpu::CpuRuntime& runtime() noexcept { return runtime_; }

  std::unique_ptr<Stream> create_stream(std::string name) override {
    return cpu::make_stream(*this, runtime_, std::move(name));
  }
  std::unique_ptr<Event> create_event(std::string name) override {
    return std::make_unique<cpu::CpuEvent>(runtime_, std::move(name));
  }

 private:
  std::byte* do_allocate(std::size_t size_bytes) override {
    void* data = nullptr;
    if (runtime_.allocation_fails() || posix_memalign(&data, kAlignment, size_bytes) != 0)
      fail(ErrorCode::out_of_device_memory, "the system refused {} of device memory", format_size(size_bytes));
    std::memset(data, kFreshByte, size_bytes);
    return static_cast<std::byte*>(data);
  }

  void do_free(std::byte* data, std::size_t) noexcept override {
    runtime_.drain();
    std::free(data);
  }

  // All host memory is within this device's reach: only the wait for pending work remains of registration.
  void do_register(std::byte*, std::size_t) override {}
  bool do_unregister(std::byte*, std::size_t) noexcept override {
    runtime_.drain();
    return true;
  }

  cpu::CpuRuntime runtime_;
};

}  // namespace

std::unique_ptr<Device> create_cpu_device(CpuDeviceOptions options) {
  cpu::check_team_can_start();  // a bad LAMINA_CPU_THREADS surfaces here, too
  return std::make_unique<CpuDevice>(std::move(options));
}

void set_cpu_faults(Device& cpu_device, CpuFaults faults) {
  expects(cpu_device.kind() == DeviceKind::cpu, "faults of the CPU device planted in {}", cpu_device.name());
  static_cast<CpuDevice&>(cpu_device).runtime().set_faults(std::move(faults));
}

}  // namespace lamina
