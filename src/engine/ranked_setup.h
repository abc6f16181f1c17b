#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/rank_connector.h"
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

/// Validates a configuration whole, before any device is touched, and adds to `notes` what of it has no effect. The
/// ranks are those of `connector`; null: threads of this process. Throws as `resolve`, `choose_device` and
/// `open_pipeline` do; incompatible where other than the ranks it takes were started; unavailable where a rank has no
/// GPU.
RankedSetup ranked_setup(const RankedConfig& config, std::vector<std::string>& notes,
                         std::shared_ptr<RankConnector> connector = nullptr);

/// The same for an engine of one rank, which only streams or does not.
EngineConfig lone_setup(const RankedConfig& config, std::vector<std::string>& notes);

}  // namespace lamina
