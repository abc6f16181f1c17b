#pragma once

#include <string>
#include <vector>

#include "device/device.h"
#include "engine/residency/part_host.h"
#include "lamina/engine.h"
#include "pipelines/pipeline.h"

namespace lamina {

/// The offload half of a configuration; throws invalid_argument naming the field.
OffloadOptions offload_options(const EngineConfig& config);

/// The dtype of activations on a device of this kind; throws invalid_argument where it has none such.
DType activation_dtype(ActivationDType asked, DeviceKind device);

/// What of a model is opened for a configuration, and how it computes on a device of this kind, by one rank.
PipelineOptions pipeline_options(const EngineConfig& config, DeviceKind device);

/// What of the configuration has no effect on these parts, and why, one sentence each.
std::vector<std::string> configuration_notes(const EngineConfig& config, const std::vector<ModelPart>& parts);

}  // namespace lamina
