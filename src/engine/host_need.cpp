#include "engine/host_need.h"

#include <algorithm>

#include "engine/stage_runner.h"
#include "offload/gathered_source.h"
#include "offload/mapped_source.h"
#include "offload/pinned_source.h"
#include "offload/staging.h"

namespace lamina {

std::vector<MemoryNeed> loading_need(const std::vector<ModelPart>& parts, const std::vector<HostWeightPlan>& plans,
                                     const OffloadOptions& options, const Sharding& sharding) {
  const std::size_t upload = StagingUploader::host_bytes(StageRunner::kUploadBufferBytes);
  std::size_t weights = 0;
  std::size_t mapped_staging = 0;
  std::size_t largest_staging = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::size_t staging = MappedSource::staging_bytes(parts[part].plan);
    largest_staging = std::max(largest_staging, staging);
    if (sharding.ranks > 1)
      weights += GatheredSource::shard_bytes(parts[part].plan, sharding);
    else if (plans[part].backing == HostBacking::checkpoint_mmap)
      mapped_staging += staging;
    else
      weights += PinnedSource::image_bytes(parts[part].plan);
  }
  if (options.stream) return {{"weights", weights}, {"staging", upload + mapped_staging}};
  // Parts are loaded one by one; the staging for uploads is made when that of the last part is gone.
  return {{"staging", std::max(upload, largest_staging)}};
}

}  // namespace lamina
