#include "offload/toy_part.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/cpu_stream.h"

namespace lamina::test {

std::string_view ToyPart::work_name(std::size_t unit) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (std::size_t i = 0; i < kMaxUnits; ++i) result.push_back("unit " + std::to_string(i));
    return result;
  }();
  return names.at(unit);
}

ToyPart::ToyPart(Device& device, const std::vector<Sizes>& stacks) : device_(device) {
  for (std::size_t s = 0; s < stacks.size(); ++s) {
    std::vector<Unit>& units = units_.emplace_back();
    for (std::size_t u = 0; u < stacks[s].size(); ++u) {
      Unit& unit = units.emplace_back();
      unit.image = device.allocate_pinned(stacks[s][u], "test");
      std::memset(unit.image.data(), std::to_integer<int>(pattern({s, u})), stacks[s][u]);
      const auto half = static_cast<std::int64_t>(stacks[s][u] / 2);
      for (const char* name : {"weight", "other"})
        unit.parameters.push_back(std::make_unique<Parameter>(
            TensorSpec{"stack" + std::to_string(s) + "." + std::to_string(u) + "." + name, DType::u8, {half}}));
    }
  }
}

PackedPieces ToyPart::fetch_async(UnitRef unit, std::byte* destination, Stream& stream) {
  const PinnedBuffer& image = units_[unit.stack][unit.unit].image;
  stream.copy_to_device_async(destination, image.data(), image.size_bytes(), "fetch unit");
  return {};
}

std::vector<std::vector<UnitBinding>> ToyPart::bindings(const std::vector<std::vector<bool>>& resident,
                                                        const Sharding& sharding) {
  std::vector<std::vector<UnitBinding>> stacks;
  for (std::size_t s = 0; s < units_.size(); ++s) {
    stacks.emplace_back();
    for (std::size_t u = 0; u < units_[s].size(); ++u) {
      Unit& unit = units_[s][u];
      const std::size_t size = unit.image.size_bytes();
      UnitBinding& binding = stacks.back().emplace_back();
      binding.parameters = {unit.parameters[0].get(), unit.parameters[1].get()};
      binding.offsets = {0, size / 2};
      binding.image_bytes = device_bytes(size, sharding);
      binding.wire_bytes = binding.image_bytes;
      if (resident.empty() || !resident[s][u]) continue;
      unit.resident = device_.allocate(size, "resident");
      std::memcpy(unit.resident.data(), unit.image.data(), size);
      binding.resident_data = unit.resident.data();
    }
  }
  return stacks;
}

void ToyPart::run(UnitRef unit, Stream& compute) {
  const Unit& target = units_[unit.stack][unit.unit];
  const ConstTensorView first = target.parameters[0]->view();
  const ConstTensorView second = target.parameters[1]->view();
  Access access{work_name(unit.unit), {range_of(first), range_of(second)}, {}};
  compute.announce(access);
  cpu::launch(compute, std::move(access),
              [first, second, expected = pattern(unit), wrong = wrong_reads_, runs = runs_] {
                for (const ConstTensorView& view : {first, second}) {
                  const std::byte* end = view.data() + view.span_bytes();
                  *wrong += std::any_of(view.data(), end, [&](std::byte byte) { return byte != expected; }) ? 1 : 0;
                }
                ++*runs;
              });
}

void traverse(BlockStream& stream, ToyPart& part, Stream& compute, std::size_t units, std::size_t passes) {
  for (std::size_t pass = 0; pass < passes; ++pass) {
    stream.begin_pass(0);
    if (pass + 1 < passes) stream.announce_next(0);
    for (std::size_t unit = 0; unit < units; ++unit) {
      UnitLease lease = stream.enter(unit);
      part.run({0, unit}, compute);
      lease.leave();
    }
    stream.end_pass();
  }
}

}  // namespace lamina::test
