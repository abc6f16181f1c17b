#include "engine/bench/benchmark.h"

namespace lamina {
namespace {

Json unit_json(const UnitMeasurement& unit) {
  return {{"unit", unit.name},
          {"bytes", unit.size_bytes},
          {"resident", unit.resident},
          {"compute_ms", unit.compute_ms},
          {"resident_compute_ms", unit.resident_compute_ms},
          {"copy_ms", unit.copy_ms},
          {"stall_ms", unit.stall_ms}};
}

Json memory_json(const MemoryUse& memory) {
  Json json = {{"peak_bytes", memory.peak_bytes}};
  for (const MemoryPart& part : memory.parts) json["parts"][part.name] = part.peak_bytes;
  return json;
}

Json size_json(const SizeMeasurement& measured) {
  Json units = Json::array();
  for (const UnitMeasurement& unit : measured.units) units.push_back(unit_json(unit));
  return {{"height", measured.size.height},
          {"width", measured.size.width},
          {"tokens", measured.tokens},
          {"resident_ms", measured.resident_ms ? Json(*measured.resident_ms) : Json(nullptr)},
          {"step_ms", measured.step_ms},
          {"slowest_step_ms", measured.slowest_step_ms},
          {"first_step_ms", measured.first_step_ms},
          {"stall_ms", measured.stall_ms},
          {"copied_bytes", measured.copied_bytes},
          {"link_ms", measured.link_ms},
          {"floor_ms", measured.floor_ms()},
          {"ratio_to_floor", measured.step_ms / measured.floor_ms()},
          {"predicted_ms", measured.predicted_ms},
          {"device_memory", memory_json(measured.device_memory)},
          {"units", std::move(units)}};
}

}  // namespace

Json benchmark_json(const BenchmarkResult& result) {
  Json sizes = Json::array();
  for (const SizeMeasurement& measured : result.sizes) sizes.push_back(size_json(measured));
  return {{"device", result.device},
          {"dtype", result.dtype},
          {"link_bytes_per_second", result.link_bytes_per_second},
          {"pinned_bytes", result.pinned_bytes},
          {"weight_bytes", result.weight_bytes},
          {"resident_note", result.resident_note},
          {"sizes", std::move(sizes)}};
}

}  // namespace lamina
