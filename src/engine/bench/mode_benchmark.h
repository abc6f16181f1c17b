#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/bench/benchmark.h"
#include "engine/ranks/ranked_setup.h"

namespace lamina {

/// What to measure of ways to run a model on several ranks.
struct ModeBenchmarkRequest {
  std::vector<std::string> modes;  ///< of `bench_mode_names`, or "given": what the configuration says
  std::vector<PictureSize> sizes;
  std::int64_t steps = 20;  ///< measured of each mode and size, behind `BenchmarkRequest::kWarmUpSteps`
  /// Seconds after which a mode and size is given up, once `kLeastSteps` are measured.
  double time_limit = 30;

  static constexpr std::int64_t kLeastSteps = 5;
};

/// One picture size in one mode: a request a replica, or several. Times in ms, of the slowest rank; bytes of one rank
/// and step.
struct ModeMeasurement {
  std::string mode;
  PictureSize size;
  std::size_t replicas = 1;
  std::size_t requests = 1;  ///< at a time, on all replicas together
  std::size_t steps = 0;     ///< measured
  double step_ms = 0;        ///< the median
  double slowest_step_ms = 0;
  std::optional<double> compute_ms;  ///< of a step with all weights on the device, measured or divided from that
  double link_ms = 0;                ///< copied bytes at the link's rate
  double stall_ms = 0;               ///< the mean of all steps
  std::size_t copied_bytes = 0;
  std::size_t gathered_bytes = 0;
  std::size_t device_peak_bytes = 0;  ///< of the largest rank
  std::size_t host_bytes = 0;         ///< pinned for weights, of all ranks together

  /// max(compute, link); the link's alone where compute is not known.
  double floor_ms() const;
  /// Images x steps a second, over all replicas.
  double throughput() const { return 1e3 * static_cast<double>(requests) / step_ms; }
};

struct ModeBenchmark {
  std::string device;  ///< of the first rank
  std::size_t ranks = 1;
  std::vector<double> link_bytes_per_second;  ///< by rank, while all copy
  std::vector<ModeMeasurement> rows;
  std::vector<std::string> notes;  ///< modes that could not run, and why; what idle replicas add
  bool failed = false;             ///< a mode ended with a fault of device or program
};

/// In the order in which they are measured.
const std::vector<std::string>& bench_mode_names();

/// Throws invalid_argument for an unknown mode, and where one is named that needs several ranks.
void check_modes(const EngineConfig& config, const ModeBenchmarkRequest& request);

/// Runs the transformer alone on random prompt embeddings, on the ranks that `config` asks for, in one mode after the
/// other; each loads its weights once. `measured` is told the rows of a mode as soon as it is done, and `stop` is asked
/// before each pass whether to give up. Modes that this build or device cannot run become notes. Throws cancelled where
/// `stop` said so, and as `check_modes` and `ranked_setup` do.
ModeBenchmark run_mode_benchmark(const EngineConfig& config, const ModeBenchmarkRequest& request,
                                 const std::function<void(const ModeMeasurement&)>& measured = {},
                                 const std::function<bool()>& stop = {});

/// The columns of docs/benchmarks.md under the names above.
Json mode_benchmark_json(const ModeBenchmark& benchmark);

}  // namespace lamina
