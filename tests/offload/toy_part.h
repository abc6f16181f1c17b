#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "device/stream.h"
#include "offload/block_stream.h"
#include "offload/shard_layout.h"
#include "offload/unit_source.h"
#include "tensor/parameter.h"

namespace lamina::test {

/// Units of a toy model part: unit u of stack s has two parameters whose bytes all spell `pattern(s, u)`, and "running"
/// it checks on the compute stream that they do. So a byte that arrives late, or leaves early, is seen.
class ToyPart : public UnitSource {
 public:
  static constexpr std::size_t kMaxUnits = 16;
  /// What the compute of unit `unit` is called on the stream: "unit 0", ...
  static std::string_view work_name(std::size_t unit);
  using Sizes = std::vector<std::size_t>;  ///< image bytes of a stack's units, multiples of 512

  explicit ToyPart(Device& device, const std::vector<Sizes>& stacks);

  static std::byte pattern(UnitRef unit) { return std::byte(1 + unit.stack * 64 + unit.unit); }

  PackedPieces fetch_async(UnitRef unit, std::byte* destination, Stream& stream) override;
  void fetch_outside_async(std::byte*, Stream&) override {}
  std::size_t host_bytes() const override { return 0; }

  /// All units stream, except that those in `resident` (by stack and unit) lie on the device already.
  /// On the device, images are padded to `sharding`.
  std::vector<std::vector<UnitBinding>> bindings(const std::vector<std::vector<bool>>& resident = {},
                                                 const Sharding& sharding = {});

  Parameter& parameter(UnitRef unit, std::size_t index) { return *units_[unit.stack][unit.unit].parameters[index]; }
  std::size_t unit_bytes(UnitRef unit) const { return units_[unit.stack][unit.unit].image.size_bytes(); }
  /// Enqueues the unit's "compute": reads its parameters on the compute stream.
  void run(UnitRef unit, Stream& compute);
  /// Work that read wrong bytes; read after the compute stream is synchronized.
  std::size_t wrong_reads() const { return *wrong_reads_; }
  std::size_t runs() const { return *runs_; }

 private:
  struct Unit {
    PinnedBuffer image;
    DeviceBuffer resident;
    std::vector<std::unique_ptr<Parameter>> parameters;
  };

  Device& device_;
  std::vector<std::vector<Unit>> units_;
  std::shared_ptr<std::size_t> wrong_reads_ = std::make_shared<std::size_t>(0);
  std::shared_ptr<std::size_t> runs_ = std::make_shared<std::size_t>(0);
};

/// A CPU device with its two streams.
struct TestDevice {
  explicit TestDevice(CpuDeviceOptions options = {})
      : device(create_cpu_device(std::move(options))),
        compute(device->create_stream("compute")),
        copy(device->create_stream("copy")) {}

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> compute;
  std::unique_ptr<Stream> copy;
};

/// Traverses stack 0 `passes` times, each announced ahead.
void traverse(BlockStream& stream, ToyPart& part, Stream& compute, std::size_t units, std::size_t passes);

}  // namespace lamina::test
