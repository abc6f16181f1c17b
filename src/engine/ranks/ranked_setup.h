#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/rank_connector.h"
#include "engine/ranks/ranked_run.h"
#include "lamina/engine.h"

namespace lamina {

/// Validates a configuration whole, before any device is touched, and adds to `notes` what of it has no effect. The
/// ranks are those of `connector`; null: threads of this process, and of those that a launcher started with it. Throws
/// as `resolve`, `choose_device` and `open_pipeline` do; incompatible where other than the ranks it takes were started;
/// unavailable where a rank has no GPU.
RankedSetup ranked_setup(const EngineConfig& config, std::vector<std::string>& notes,
                         std::shared_ptr<RankConnector> connector = nullptr);

/// The same for an engine of one rank, which only streams or does not.
EngineConfig lone_setup(const EngineConfig& config, std::vector<std::string>& notes);

}  // namespace lamina
