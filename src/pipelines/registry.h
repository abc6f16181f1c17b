#pragma once

#include <memory>

#include "pipelines/pipeline.h"
#include "weights/model_folder.h"

namespace lamina {

/// The pipeline for the folder's `_class_name`, with its checkpoint opened and checked. Throws incompatible naming the
/// class and the supported ones, and as `check_variant` does.
std::unique_ptr<Pipeline> open_pipeline(const ModelFolder& folder, const PipelineOptions& options = {});

}  // namespace lamina
