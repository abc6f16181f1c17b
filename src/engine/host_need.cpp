#include "engine/host_need.h"

#include <algorithm>

#include "engine/stage_runner.h"
#include "offload/checkpoint_source.h"
#include "offload/pinned_source.h"
#include "offload/staging.h"

namespace lamina {

std::vector<MemoryNeed> loading_need(const std::vector<ModelPart>& parts, const OffloadOptions& options) {
  const std::size_t upload = StagingUploader::host_bytes(StageRunner::kUploadBufferBytes);
  if (!options.stream) {
    // Parts are loaded one by one; the staging for uploads is made when that of the last part is gone.
    const std::size_t load = StagingUploader::host_bytes(CheckpointSource::kStagingBytes);
    return {{"staging", std::max(upload, load)}};
  }
  std::size_t weights = 0;
  for (const ModelPart& part : parts) weights += PinnedSource::image_bytes(part.plan);
  return {{"weights", weights}, {"staging", upload}};
}

}  // namespace lamina
