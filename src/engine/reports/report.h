#pragma once

#include <string>
#include <vector>

#include "device/device.h"
#include "engine/residency/part_host.h"
#include "engine/residency/stage_runner.h"
#include "lamina/generate.h"
#include "pipelines/pipeline.h"

namespace lamina {

struct ReportInput {
  Device& device;
  const PartHost& host;
  const Pipeline& pipeline;
  const std::vector<StageReport>& stages;
  const GenerateResult& result;
};

/// The run as JSON: effective configuration, and per stage its memory by part, its units (bytes, visits, fetches,
/// stall), the virtual-time model's prediction, and times. Described field by field in docs/formats/report.md.
std::string report_json(const ReportInput& input);

}  // namespace lamina
