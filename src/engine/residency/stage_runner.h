#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "device/device.h"
#include "engine/residency/part_host.h"
#include "lamina/generate.h"
#include "offload/staging.h"
#include "offload/stream_statistics.h"
#include "pipelines/pipeline.h"

namespace lamina {

/// Device bytes a stage needs, by part of the memory.
struct StageNeed {
  std::string stage;
  bool is_divided = false;  ///< see `Stage::divide`
  PartMemory part;
  std::size_t kept_bytes = 0;  ///< other parts that stay on the device
  std::size_t activation_bytes = 0;
  std::size_t workspace_bytes = 0;
  std::size_t result_bytes = 0;  ///< pinned host memory, which does not count to the device's total

  std::size_t total_bytes() const noexcept {
    return part.total_bytes() + kept_bytes + activation_bytes + workspace_bytes;
  }
};

/// What a stage did.
struct StageReport {
  StageNeed need;
  MemoryUse memory;                   ///< peaks of this stage alone
  StreamStatistics statistics;        ///< of its passes
  std::vector<VisitTiming> timeline;  ///< with OffloadOptions::record_timeline
  std::size_t part = 0;
  std::size_t stack = 0;
  std::size_t passes = 0;
  std::chrono::nanoseconds duration{0};
  std::chrono::nanoseconds passes_duration{0};
};

/// Runs stages: measures, reserves, activates the part, drives the block loop, cleans up. Whatever throws on the way,
/// the device holds nothing of the stage afterwards.
class StageRunner {
 public:
  static constexpr std::size_t kUploadBufferBytes = kMiB;

  StageRunner(Device& device, Stream& compute, PartHost& host, const std::vector<ModelPart>& parts);

  StageRunner(const StageRunner&) = delete;
  StageRunner& operator=(const StageRunner&) = delete;

  /// What the stage needs, from a run of its code on a planning context.
  StageNeed measure(Stage& stage);
  /// Whether that can ever fit the device's limit.
  bool fits(const StageNeed& need) const;
  /// Throws out_of_device_memory with the numbers by part where it cannot.
  void check_fits(const StageNeed& need) const;

  StagingUploader& uploader() noexcept { return uploader_; }

  StageReport run(Stage& stage, const StageNeed& need, const ProgressFunction& progress);

 private:
  void run_passes(Stage& stage, BlockStream& stream, ops::OpContext& context, const ProgressFunction& progress);

  Device& device_;
  Stream& compute_;
  PartHost& host_;
  const std::vector<ModelPart>& parts_;
  StagingUploader uploader_;
};

}  // namespace lamina
