#pragma once

#include <vector>

#include "base/memory_budget.h"
#include "engine/residency/part_host.h"
#include "pipelines/pipeline.h"

namespace lamina {

/// Pinned host memory that an engine takes to load these parts and to feed its stages, from their plans alone (`plans`
/// by part): at most, by part of the memory. So many `ranks` share the images, and each has staging of its own. What a
/// request needs for its results comes on top (`StageNeed::result_bytes`).
std::vector<MemoryNeed> loading_need(const std::vector<ModelPart>& parts, const std::vector<HostWeightPlan>& plans,
                                     const ResidencyOptions& residency, std::size_t ranks = 1);

}  // namespace lamina
