#include "engine/residency/host_need.h"

#include <algorithm>

#include "engine/residency/stage_runner.h"
#include "offload/gathered_source.h"
#include "offload/mapped_source.h"
#include "offload/pinned_images.h"
#include "offload/staging.h"

namespace lamina {
namespace {

/// What comes to the device to stay comes part by part, through staging that goes with the part.
std::size_t loading_staging(const std::vector<ModelPart>& parts, const ResidencyOptions& residency) {
  std::size_t largest = 0;
  for (const ModelPart& part : parts)
    largest = std::max(largest, residency.stream ? GatheredSource::loading_bytes(part.plan, residency.sharding)
                                                 : MappedSource::staging_bytes(part.plan));
  return largest;
}

}  // namespace

std::vector<MemoryNeed> loading_need(const std::vector<ModelPart>& parts, const std::vector<HostWeightPlan>& plans,
                                     const ResidencyOptions& residency, std::size_t ranks) {
  // Made when the staging of the last part is gone.
  const std::size_t upload = StagingUploader::host_bytes(StageRunner::kUploadBufferBytes);
  if (!residency.stream || residency.shards == ShardPlace::device)
    return {{"staging", std::max(upload, loading_staging(parts, residency))}};
  std::size_t weights = 0;
  std::size_t staging = upload;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (residency.sharding.ranks > 1)
      weights += GatheredSource::shard_bytes(parts[part].plan, residency.sharding);
    else if (plans[part].backing == HostBacking::checkpoint_mmap)
      staging += MappedSource::staging_bytes(parts[part].plan);
    else
      weights += PinnedImages::size_bytes(parts[part].plan);
  }
  return {{"weights", weights}, {"staging", ranks * staging}};
}

}  // namespace lamina
