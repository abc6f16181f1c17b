#include "cli/bench_table.h"

#include <fmt/format.h>

#include <map>

#include "base/bytes.h"

namespace lamina {
namespace {

std::string optional_ms(std::optional<double> value) {
  return value ? fmt::format("{:.2f}", *value) : "-";
}

std::string name_of(const PictureSize& size) {
  return fmt::format("{}x{}", size.width, size.height);
}

std::string sizes_table(const BenchmarkResult& result) {
  std::string text = fmt::format("{:>10} {:>7} {:>10} {:>9} {:>8} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
                                 "picture", "tokens", "resident", "GB", "link", "floor", "step", "ratio", "predicted",
                                 "slowest", "first", "stall", "peak MiB");
  for (const SizeMeasurement& size : result.sizes)
    text += fmt::format(
        "{:>10} {:>7} {:>10} {:>9.3f} {:>8.2f} {:>9.2f} {:>9.2f} {:>6.3f} {:>9.2f} {:>9.2f} {:>9.2f} "
        "{:>9.2f} {:>9}\n",
        name_of(size.size), size.tokens, optional_ms(size.resident_ms), static_cast<double>(size.copied_bytes) / 1e9,
        size.link_ms, size.floor_ms(), size.step_ms, size.step_ms / size.floor_ms(), size.predicted_ms,
        size.slowest_step_ms, size.first_step_ms, size.stall_ms, size.device_memory.peak_bytes / kMiB);
  return text;
}

std::string memory_table(const SizeMeasurement& size) {
  std::string text = fmt::format("{}: device peak {}:", name_of(size.size), format_size(size.device_memory.peak_bytes));
  for (const MemoryPart& part : size.device_memory.parts)
    if (part.at_peak_bytes > 0) text += fmt::format(" {} {},", part.name, format_size(part.at_peak_bytes));
  text.back() = '\n';
  return text;
}

/// Units of one size and residency have much the same times: one line for each such kind.
struct UnitKind {
  UnitMeasurement sum;
  int count = 0;
};

std::string units_table(const SizeMeasurement& size) {
  std::map<std::pair<std::size_t, bool>, UnitKind> kinds;
  for (const UnitMeasurement& unit : size.units) {
    auto& [sum, count] = kinds[{unit.size_bytes, unit.resident}];
    if (count++ == 0) sum.name = unit.name;
    sum.compute_ms += unit.compute_ms;
    sum.resident_compute_ms += unit.resident_compute_ms;
    sum.copy_ms += unit.copy_ms;
    sum.stall_ms += unit.stall_ms;
  }
  std::string text;
  for (const auto& [kind, units] : kinds) {
    const auto& [sum, count] = units;
    text += fmt::format(
        "{:>10} {:>3} units like {} ({:.1f} MiB{}): {}compute {:.3f}, copy {:.3f}, stall {:.3f} ms each\n",
        name_of(size.size), count, sum.name, static_cast<double>(kind.first) / kMiB, kind.second ? ", resident" : "",
        size.resident_ms ? fmt::format("resident {:.3f}, ", sum.resident_compute_ms / count) : "",
        sum.compute_ms / count, sum.copy_ms / count, sum.stall_ms / count);
  }
  return text;
}

}  // namespace

std::string benchmark_table(const BenchmarkResult& result) {
  std::string text = fmt::format("{} {}, {} of weights, link {:.2f} GB/s, {} of host memory locked\n", result.device,
                                 result.dtype, format_size(result.weight_bytes), result.link_bytes_per_second / 1e9,
                                 format_size(result.pinned_bytes));
  if (!result.resident_note.empty()) text += fmt::format("no resident run: {}\n", result.resident_note);
  text += "times of a step in ms\n" + sizes_table(result);
  for (const SizeMeasurement& size : result.sizes) text += units_table(size);
  for (const SizeMeasurement& size : result.sizes) text += memory_table(size);
  return text;
}

}  // namespace lamina
