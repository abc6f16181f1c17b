#pragma once

#include <vector>

#include "base/host_memory_budget.h"
#include "device/device.h"
#include "engine/residency/part_host.h"
#include "lamina/engine.h"
#include "pipelines/pipeline.h"
#include "weights/host_weight_plan.h"

namespace lamina {

/// Where a streaming engine on such a device keeps the transformer's weights, `auto` decided where that takes no look
/// at the checkpoint: on a GPU, weights stay in files only where they have no room in locked memory.
HostBackingChoice choose_host_backing(DeviceKind device, const HostMemoryBudget& host,
                                      const std::vector<ModelPart>& parts, const OffloadOptions& options);

/// Where the weights of each part shall live, proven or refused, before any weight is read. Throws incompatible naming
/// the reason where mapping is demanded and refused.
std::vector<HostWeightPlan> plan_host_weights(const std::vector<ModelPart>& parts, const OffloadOptions& options);

}  // namespace lamina
