#pragma once

#include <string>
#include <vector>

#include "engine/residency/stage_runner.h"
#include "pipelines/pipeline.h"

namespace lamina {

/// The timelines of stages (`OffloadOptions::record_timeline`) in the Trace Event Format that Chrome and Perfetto show:
/// one track for each stream, copies on one, and on the other each unit's compute and the stall before it.
/// Source: Trace Event Format, Google, "JSON Object Format".
std::string trace_json(const std::vector<StageReport>& stages, const std::vector<ModelPart>& parts);

}  // namespace lamina
