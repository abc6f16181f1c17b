#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/parallel_config.h"
#include "engine/ranked_run.h"
#include "lamina/engine.h"

namespace lamina {

/// An engine of several ranks, as the flags give it.
struct RankedConfig {
  EngineConfig engine;
  ParallelConfig parallel;        ///< what it says of offload follows from `engine`
  std::size_t gather_chunks = 1;  ///< --dlo-gather-chunks
};

/// Validates a configuration whole, before any device is touched, and adds to `notes` what of it has no effect. Throws
/// as `resolve` and `choose_device` do, and not_implemented for what no rank of this build can do.
RankedSetup ranked_setup(const RankedConfig& config, std::vector<std::string>& notes);

}  // namespace lamina
