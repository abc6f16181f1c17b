#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "device/stream.h"
#include "engine/residency/part_host.h"
#include "engine/residency/stage_runner.h"
#include "lamina/generate.h"
#include "pipelines/pipeline.h"

namespace lamina {

/// Makes pictures with one pipeline on one device, one request after the other: the engine behind `Engine`, with the
/// device chosen by the caller. Not thread safe.
class Generator {
 public:
  /// Loads the weights. Throws out_of_host_memory, out_of_device_memory, or what the checkpoint's reading throws.
  Generator(std::unique_ptr<Device> device, std::unique_ptr<Pipeline> pipeline, const OffloadOptions& options);

  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// Refuses a request whose largest stage can never fit before anything runs. After an error the generator holds no
  /// memory of the request and goes on.
  GenerateResult generate(const GenerateRequest& request, const ProgressFunction& progress = {});

  Device& device() noexcept { return *device_; }
  /// What the stages of the last successful request did.
  const std::vector<StageReport>& stage_reports() const noexcept { return stage_reports_; }

 private:
  /// Divides the stage where it does not fit whole; throws where it does not fit at all. Notes that and why, and
  /// logs it.
  StageNeed plan(Stage& stage, std::vector<std::string>& notes);
  void check_results_fit(const std::vector<StageNeed>& needs) const;

  std::unique_ptr<Device> device_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<Stream> compute_;
  std::unique_ptr<Stream> copy_;
  PartHost host_;
  StageRunner runner_;
  std::vector<StageReport> stage_reports_;
};

}  // namespace lamina
