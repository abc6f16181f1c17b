#include "cli/mode_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.h"

namespace lamina {
namespace {

std::string ratio(double value, double floor) {
  return floor > 0 ? fmt::format("{:.3f}", value / floor) : "-";
}

double gigabytes(std::size_t size_bytes) {
  return static_cast<double>(size_bytes) / 1e9;
}

}  // namespace

std::string mode_table_header() {
  return fmt::format(
      "{:>11} {:>10} {:>4} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6} {:>6} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9}\n",
      "mode", "picture", "req", "steps", "step", "slowest", "compute", "link", "floor", "ratio", "share", "stall",
      "link GB", "gather GB", "peak MiB", "host GB", "images/s");
}

std::string mode_table_row(const ModeMeasurement& row) {
  return fmt::format(
      "{:>11} {:>10} {:>4} {:>5} {:>9.2f} {:>9.2f} {:>9} {:>9.2f} {:>9.2f} {:>6} {:>6} {:>9.2f} {:>8.3f} {:>9.3f} "
      "{:>9} "
      "{:>9.3f} {:>9.3f}\n",
      row.mode, fmt::format("{}x{}", row.size.width, row.size.height), row.requests, row.steps, row.step_ms,
      row.slowest_step_ms, row.compute_ms ? fmt::format("{:.2f}", *row.compute_ms) : "-", row.link_ms, row.floor_ms(),
      ratio(row.step_ms, row.floor_ms()), row.compute_ms ? ratio(*row.compute_ms, row.step_ms) : "-", row.stall_ms,
      gigabytes(row.copied_bytes), gigabytes(row.gathered_bytes), row.device_peak_bytes / kMiB,
      gigabytes(row.host_bytes), row.throughput());
}

std::string mode_table(const ModeBenchmark& benchmark) {
  std::vector<std::string> rates;
  for (const double rate : benchmark.link_bytes_per_second) rates.push_back(fmt::format("{:.2f}", rate / 1e9));
  std::string text = fmt::format("{} ranks, the first on {}; links {} GB/s while all copy; times of a step in ms\n",
                                 benchmark.ranks, benchmark.device, fmt::join(rates, ", "));
  text += mode_table_header();
  for (const ModeMeasurement& row : benchmark.rows) text += mode_table_row(row);
  for (const std::string& note : benchmark.notes) text += note + "\n";
  return text;
}

}  // namespace lamina
