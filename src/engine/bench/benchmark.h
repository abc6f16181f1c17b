#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/memory_budget.h"
#include "lamina/engine.h"

namespace lamina {

struct PictureSize {
  std::int64_t height = 0;  ///< pixels
  std::int64_t width = 0;
  bool operator==(const PictureSize&) const = default;
};

/// What to measure of a model's denoising steps.
struct BenchmarkRequest {
  std::vector<PictureSize> sizes;
  std::int64_t steps = 20;  ///< measured, behind `kWarmUpSteps`; at least 1
  bool resident = true;     ///< also with all weights on the device, where they fit

  static constexpr std::int64_t kWarmUpSteps = 3;
  static constexpr std::int64_t kMostSteps = 1000 - kWarmUpSteps;  ///< the schedules have 1000
};

/// Steps of one guidance branch, those to warm up first, without a picture; seeds are the caller's.
GenerateRequest timed_request(const PictureSize& size, std::int64_t steps);

/// One unit's means over the measured steps; milliseconds.
struct UnitMeasurement {
  std::string name;
  std::size_t size_bytes = 0;
  bool resident = false;
  double compute_ms = 0;           ///< from its weights being ready to its last kernel's end
  double resident_compute_ms = 0;  ///< the same with all weights on the device; 0 where that was not measured
  double copy_ms = 0;
  double stall_ms = 0;
};

/// Steps of one picture size, batch 1. All figures are of the same run of the program.
struct SizeMeasurement {
  PictureSize size;
  std::int64_t tokens = 0;            ///< of text and image
  std::optional<double> resident_ms;  ///< median step with all weights on the device
  double step_ms = 0;                 ///< median streamed step
  double slowest_step_ms = 0;
  double first_step_ms = 0;      ///< of the request, from its first copy on
  double stall_ms = 0;           ///< the mean of the measured steps
  std::size_t copied_bytes = 0;  ///< host to device, a step
  double link_ms = 0;            ///< copied_bytes at the measured link rate
  double predicted_ms = 0;       ///< a steady step of the virtual-time model
  MemoryUse device_memory;       ///< of the denoise stage
  std::vector<UnitMeasurement> units;
  std::string trace_json;  ///< see GenerateResult

  /// max(resident compute, copied bytes / link). Without a resident run, the compute of the streamed one.
  double floor_ms() const;
};

struct BenchmarkResult {
  std::string device;
  std::string dtype;
  double link_bytes_per_second = 0;  ///< host to device, median of copies of one unit's image
  std::size_t pinned_bytes = 0;      ///< locked host memory while streaming
  std::size_t weight_bytes = 0;      ///< of the transformer
  std::string resident_note;         ///< why nothing was measured with all weights on the device; empty where it was
  std::vector<SizeMeasurement> sizes;
};

/// Throws what `run_benchmark` would throw for a synthetic transformer, which has no VAE, whatever its weights:
/// for the device, the streaming options, and sizes that are no pictures.
void check_benchmark(const EngineConfig& config, const BenchmarkRequest& request);

/// Runs the transformer alone on random prompt embeddings: first the link, then resident steps, then streamed ones,
/// in one process. `config` says how to stream; its offload flag is taken as set. Throws as `Engine` does, and what
/// `progress` throws.
BenchmarkResult run_benchmark(const EngineConfig& config, const BenchmarkRequest& request,
                              const ProgressFunction& progress = {});

/// Everything measured: the columns of docs/benchmarks.md under the names above, and every unit.
Json benchmark_json(const BenchmarkResult& result);

}  // namespace lamina
