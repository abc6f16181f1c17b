#pragma once

#include <memory>

#include "pipelines/pipeline.h"
#include "weights/model_folder.h"

namespace lamina {

/// FLUX.2 klein, base and distilled: text to image, and editing of reference images. Throws as `Flux2Model` does.
/// Source: diffusers, Flux2KleinPipeline.
std::unique_ptr<Pipeline> open_flux2_pipeline(const ModelFolder& folder, const PipelineOptions& options);

}  // namespace lamina
