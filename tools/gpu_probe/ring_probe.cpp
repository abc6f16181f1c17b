// Measures whether the ring's pattern of copies, products and events reaches max(compute, bytes / link): klein 9B's
// units stream from pinned host memory through a ring while the products (and the attention) of its blocks run. Beside
// each step stands what the virtual-time model of src/offload predicts from unit times and link rate measured here.
// A measuring program, not product code.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "gpu_probe/bare_stream.h"
#include "gpu_probe/check.h"
#include "gpu_probe/gpu.h"
#include "gpu_probe/kernels.h"
#include "gpu_probe/klein.h"
#include "gpu_probe/pinned.h"
#include "offload/timing_model.h"

namespace lamina::probe {
namespace {

constexpr std::size_t kPasses = 10;  // two warm, eight measured
constexpr std::size_t kCheckedPasses = 3;
constexpr std::size_t kLargeRing = 4 * kDoubleBytes;

/// Host images of all units, registered one by one.
class HostImages {
 public:
  HostImages() {
    const LockedMemory before = LockedMemory::now();
    const double map_ms = host_ms([&] {
      for (std::size_t unit = 0; unit < kUnits; ++unit)
        mappings_.push_back(Mapping::anonymous(unit_bytes(unit), Pages::touched));
    });
    const double register_ms = host_ms([&] {
      for (const Mapping& mapping : mappings_) registrations_.emplace_back(mapping.data(), mapping.size_bytes());
    });
    const LockedMemory held = LockedMemory::now().since(before);
    fmt::print(
        "\n{} units, {} B: mapped and touched in {:.1f} s, registered in {:.1f} s; VmLck {}, VmPin {}, pinned by "
        "drivers {}\n",
        kUnits, kStreamedBytes, map_ms / 1e3, register_ms / 1e3, held.vm_lck_bytes, held.vm_pin_bytes,
        held.pinned_by_drivers);
  }

  std::byte* data(std::size_t unit) const { return mappings_[unit].data(); }

  std::vector<HostUnit> units() const {
    std::vector<HostUnit> units;
    for (const Mapping& mapping : mappings_) units.push_back({mapping.data(), mapping.size_bytes()});
    return units;
  }

 private:
  std::vector<Mapping> mappings_;
  std::vector<Registration> registrations_;
};

/// What a step needs at least, measured just before it.
struct Floor {
  double resident_ms = 0;
  double link_ms = 0;
  std::vector<double> unit_ms;  ///< each unit's compute, resident
};

class RingProbe {
 public:
  RingProbe()
      : compute_(create_stream()),
        copy_(create_stream()),
        blas_(create_blas_handle()),
        dnn_(create_dnn_handle(compute_.get())),
        ring_(allocate(kLargeRing)),
        resident_(allocate(kStreamedBytes)),
        sums_(allocate(kUnits * sizeof(std::uint64_t))) {
    check(fill_random_async(resident_.get(), kStreamedBytes, 0.02F, 7, copy_.get()));
    std::size_t offset = 0;
    for (std::size_t unit = 0; unit < kUnits; offset += unit_bytes(unit++)) {
      resident_units_.push_back(resident_.get() + offset);
      check(cudaMemcpyAsync(host_.data(unit), resident_units_.back(), unit_bytes(unit), cudaMemcpyDeviceToHost,
                            copy_.get()));
    }
    check(cudaStreamSynchronize(copy_.get()));
  }

  void run() {
    event_costs();
    fmt::print("\nStep: median of {} passes behind {}. Floor: max(resident compute, bytes / link).\n\n",
               kPasses - kWarmPasses, kWarmPasses);
    fmt::print(
        "| compute | px | ring MiB | events' times | step ms | resident ms | bytes / link ms | ratio to floor | "
        "predicted ms | first step ms | stall ms | copies' rate / link | compute / resident | host enqueues ms | "
        "wrong units |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (const std::int64_t pixels : {512, 1024, 2048}) rows(pixels, false);
    for (const std::int64_t pixels : {512, 1024, 1664, 2048}) rows(pixels, true);
  }

 private:
  /// All units once, without compute.
  double link_ms() {
    return time_ms(copy_.get(), 3, 1, [&](int) {
      std::size_t place = 0;
      for (const HostUnit& unit : host_.units()) {
        check(cudaMemcpyAsync(ring_.get() + place * kDoubleBytes, unit.data, unit.size_bytes, cudaMemcpyHostToDevice,
                              copy_.get()));
        place = (place + 1) % 2;
      }
    });
  }

  /// Kernels of some microseconds, so that the device and not the host's launching is what is timed.
  void event_costs() {
    constexpr int kEvents = 1000;
    constexpr std::size_t kKernelBytes = std::size_t{32} << 20;
    const auto kernel = [&] {
      check(copy_by_kernel_async(ring_.get(), ring_.get() + kKernelBytes, kKernelBytes, compute_.get()));
    };
    const auto print = [](const char* what, double device_ms, double host_record_ms) {
      fmt::print("| {} | {:.2f} | {:.2f} |\n", what, 1e3 * device_ms, 1e3 * host_record_ms);
    };
    fmt::print("\n| between two kernels | device us a kernel | host us a record |\n|---|---|---|\n");
    fmt::print("| nothing | {:.2f} | |\n", 1e3 * time_ms(compute_.get(), 7, kEvents, [&](int) { kernel(); }));
    for (const Timing timing : {Timing::off, Timing::on}) {
      std::vector<Event> events;
      for (int i = 0; i < kEvents; ++i) events.push_back(create_event(timing));
      const auto record = [&](int i) {
        check(cudaEventRecord(events[static_cast<std::size_t>(i)].get(), compute_.get()));
      };
      const double device_ms = time_ms(compute_.get(), 7, kEvents, [&](int i) {
        record(i);
        kernel();
      });
      const double records_ms = host_ms([&] {
        for (int i = 0; i < kEvents; ++i) record(i);
      });
      check(cudaStreamSynchronize(compute_.get()));
      print(timing == Timing::on ? "a record, times on" : "a record, times off", device_ms, records_ms / kEvents);
    }
    const double launches_ms = host_ms([&] {
      for (int i = 0; i < kEvents; ++i) check(touch_async(sums_.get(), compute_.get()));
    });
    check(cudaStreamSynchronize(compute_.get()));
    fmt::print("\nA kernel launch takes the host {:.2f} us.\n", 1e3 * launches_ms / kEvents);
  }

  void rows(std::int64_t pixels, bool with_attention) {
    const KleinCompute compute(blas_.get(), dnn_.get(), pixels, with_attention, compute_.get());
    Floor floor = resident_floor(compute);
    floor.link_ms = link_ms();
    const std::vector<std::uint64_t> expected = resident_hashes(compute);
    const std::string name = fmt::format("{} | {}", with_attention ? "products, attention" : "products", pixels);
    if (with_attention) row(name, compute, floor, expected, {2 * kDoubleBytes, Timing::off});
    for (const std::size_t slots : {2, 3, 4}) row(name, compute, floor, expected, {slots * kDoubleBytes, Timing::on});
  }

  struct Ring {
    std::size_t size_bytes;
    Timing timing;
  };

  void row(const std::string& name, const KleinCompute& compute, const Floor& floor,
           const std::vector<std::uint64_t>& expected, const Ring& ring) {
    const StreamTimes times = stream(ring).run(
        kPasses, [&](std::size_t unit, const std::byte* weights) { compute.run_unit_async(unit, weights); });
    const bool timed = ring.timing == Timing::on;
    fmt::print("| {} | {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.3f} | {:.2f} | {:.2f} | ", name, ring.size_bytes >> 20,
               timed ? "on" : "off", times.step_ms, floor.resident_ms, floor.link_ms,
               times.step_ms / std::max(floor.resident_ms, floor.link_ms), predicted_ms(floor, ring.size_bytes),
               times.first_step_ms);
    if (timed)
      fmt::print("{:.2f} | {:.3f} | {:.3f} | ", times.stall_ms, floor.link_ms / times.copy_ms,
                 times.compute_ms / floor.resident_ms);
    else
      fmt::print("| | | ");
    fmt::print("{:.2f} | {} |\n", times.enqueue_ms, wrong_units(compute, ring, expected));
  }

  BareStream stream(const Ring& ring) {
    return {host_.units(), ring_.get(), ring.size_bytes, ring.timing, copy_.get(), compute_.get()};
  }

  /// Passes back to back over resident weights, as many as are streamed.
  Floor resident_floor(const KleinCompute& compute) {
    std::vector<Event> events;
    for (std::size_t i = 0; i <= kPasses * kUnits; ++i) events.push_back(create_event(Timing::on));
    check(cudaEventRecord(events[0].get(), compute_.get()));
    for (std::size_t visit = 0; visit < kPasses * kUnits; ++visit) {
      compute.run_unit_async(visit % kUnits, resident_units_[visit % kUnits]);
      check(cudaEventRecord(events[visit + 1].get(), compute_.get()));
    }
    check(cudaStreamSynchronize(compute_.get()));

    Floor floor;
    std::vector<double> steps;
    for (std::size_t pass = kWarmPasses; pass < kPasses; ++pass)
      steps.push_back(elapsed_ms(events[pass * kUnits], events[(pass + 1) * kUnits]));
    floor.resident_ms = median(std::move(steps));
    for (std::size_t unit = 0; unit < kUnits; ++unit) {
      std::vector<double> times;
      for (std::size_t visit = kWarmPasses * kUnits + unit; visit < kPasses * kUnits; visit += kUnits)
        times.push_back(elapsed_ms(events[visit], events[visit + 1]));
      floor.unit_ms.push_back(median(std::move(times)));
    }
    return floor;
  }

  static double predicted_ms(const Floor& floor, std::size_t ring_bytes) {
    TimingInputs inputs;
    inputs.ring_bytes = ring_bytes;
    inputs.link_bytes_per_second = static_cast<double>(kStreamedBytes) / floor.link_ms * 1e3;
    inputs.passes = 6;
    for (std::size_t unit = 0; unit < kUnits; ++unit)
      inputs.units.push_back(
          {.size_bytes = unit_bytes(unit),
           .compute = std::chrono::nanoseconds(static_cast<std::int64_t>(floor.unit_ms[unit] * 1e6))});
    const TimingPrediction prediction = predict_timing(inputs);
    // The last pass has no next one to fetch for, which does not change when its own units come.
    return static_cast<double>(prediction.steady_pass.count()) / 1e6;
  }

  /// Runs a unit and adds hashes of its last output and of all its weights, as they are after their last use.
  void run_and_hash_async(const KleinCompute& compute, std::size_t unit, const std::byte* weights) {
    auto* sum = reinterpret_cast<std::uint64_t*>(sums_.get()) + unit;
    compute.run_unit_async(unit, weights);
    compute.hash_output_async(unit, sum);
    check(add_hash_async(weights, unit_bytes(unit), sum, compute_.get()));
  }

  void clear_sums() { check(cudaMemsetAsync(sums_.get(), 0, kUnits * sizeof(std::uint64_t), compute_.get())); }

  std::vector<std::uint64_t> read_sums() {
    std::vector<std::uint64_t> sums(kUnits);
    check(cudaStreamSynchronize(compute_.get()));
    check(cudaMemcpy(sums.data(), sums_.get(), kUnits * sizeof(std::uint64_t), cudaMemcpyDeviceToHost));
    return sums;
  }

  /// What each unit's sum must be after the checked passes, from resident weights.
  std::vector<std::uint64_t> resident_hashes(const KleinCompute& compute) {
    clear_sums();
    for (std::size_t unit = 0; unit < kUnits; ++unit) run_and_hash_async(compute, unit, resident_units_[unit]);
    std::vector<std::uint64_t> hashes = read_sums();
    for (std::uint64_t& hash : hashes) hash *= kCheckedPasses;
    return hashes;
  }

  std::size_t wrong_units(const KleinCompute& compute, const Ring& ring, const std::vector<std::uint64_t>& expected) {
    clear_sums();
    stream(ring).run(kCheckedPasses,
                     [&](std::size_t unit, const std::byte* weights) { run_and_hash_async(compute, unit, weights); });
    const std::vector<std::uint64_t> got = read_sums();
    std::size_t wrong = 0;
    for (std::size_t unit = 0; unit < kUnits; ++unit) wrong += got[unit] != expected[unit] ? 1 : 0;
    return wrong;
  }

  Stream compute_;
  Stream copy_;
  BlasHandle blas_;
  DnnHandle dnn_;
  DeviceMemory ring_;
  DeviceMemory resident_;
  DeviceMemory sums_;
  HostImages host_;
  std::vector<const std::byte*> resident_units_;
};

void probe_ring() {
  check(cudaFree(nullptr));  // makes the context, whose own pinned memory stays
  const LockedMemory before = LockedMemory::now();
  RingProbe().run();
  const LockedMemory left = LockedMemory::now().since(before);
  fmt::print("\nleft after all was unregistered: VmLck {}, VmPin {}, pinned by drivers {} B\n", left.vm_lck_bytes,
             left.vm_pin_bytes, left.pinned_by_drivers);
}

}  // namespace
}  // namespace lamina::probe

int main() {
  try {
    lamina::probe::probe_ring();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "ring_probe: {}\n", error.what());
    return 1;
  }
}
