#include "engine/bench/benchmark.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/host_memory_budget.h"
#include "base/milliseconds.h"
#include "engine/bench/link_rate.h"
#include "engine/config/options.h"
#include "engine/config/select_device.h"
#include "engine/generator.h"
#include "offload/timing_model.h"
#include "offload/unit_layout.h"
#include "pipelines/chat_prompt.h"
#include "pipelines/latent_geometry.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina {
namespace {

constexpr std::uint64_t kPromptSeed = 1;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::unique_ptr<Device> make_device(const EngineConfig& config) {
  return create_device(choose_device(config.device), config.device_memory_bytes,
                       process_host_memory(config.host_memory_bytes));
}

std::unique_ptr<Pipeline> open_transformer(const EngineConfig& config, DeviceKind device) {
  PipelineOptions options = pipeline_options(config, device);
  options.text_encoder = false;
  return open_pipeline(ModelFolder::open(config.model), options);
}

const ModelPart& transformer_of(const Pipeline& pipeline) {
  const auto found = std::ranges::find(pipeline.parts(), true, &ModelPart::is_transformer);
  expects(found != pipeline.parts().end(), "a pipeline without a transformer");
  return *found;
}

std::size_t largest_unit_bytes(const Stack& stack) {
  std::size_t largest = 0;
  for (const StreamUnit& unit : stack.units) largest = std::max(largest, UnitLayout::of(unit.groups).size_bytes);
  return largest;
}

/// The times of a run's steps, from its timeline.
struct Steps {
  std::vector<double> measured_ms;  ///< without the first ones
  double first_ms = 0;
};

Steps steps_of(const StageReport& stage) {
  std::vector<std::chrono::nanoseconds> ends(stage.passes);
  std::chrono::nanoseconds start = std::chrono::nanoseconds::max();
  for (const VisitTiming& visit : stage.timeline) {
    ends[visit.pass] = visit.compute_end;
    if (visit.pass == 0) start = std::min(start, visit.copy_end.count() > 0 ? visit.copy_begin : visit.compute_begin);
  }
  Steps steps;
  steps.first_ms = milliseconds(ends.front() - start);
  for (std::size_t pass = BenchmarkRequest::kWarmUpSteps; pass < ends.size(); ++pass)
    steps.measured_ms.push_back(milliseconds(ends[pass] - ends[pass - 1]));
  return steps;
}

/// What the denoise stage did, and the latent tokens of the picture.
struct Run {
  StageReport stage;
  std::int64_t latent_tokens = 0;
  std::string trace_json;
};

GenerateRequest request_of(const PictureSize& size, std::int64_t steps) {
  GenerateRequest request = timed_request(size, steps);
  request.prompt_embeds_seed = kPromptSeed;
  return request;
}

/// Throws what any of the sizes would be refused with, before time is spent on the others.
void check_sizes(const EngineConfig& config, const BenchmarkRequest& request) {
  const auto pipeline = open_transformer(config, choose_device(config.device).kind);
  for (const PictureSize& size : request.sizes) pipeline->start(request_of(size, request.steps));
}

Run run_steps(Generator& generator, const PictureSize& size, std::int64_t steps, const ProgressFunction& progress) {
  GenerateResult result = generator.generate(request_of(size, steps), progress);
  return {generator.stage_reports().front(), result.tensors.front().shape.at(1), std::move(result.trace_json)};
}

/// Means over the measured steps.
std::vector<UnitMeasurement> units_of(const StageReport& stage, const Stack& stack) {
  std::vector<UnitMeasurement> units;
  for (std::size_t i = 0; i < stack.units.size(); ++i)
    units.push_back({.name = stack.units[i].block,
                     .size_bytes = UnitLayout::of(stack.units[i].groups).size_bytes,
                     .resident = stage.need.part.resident[stage.stack][i]});
  const auto steps = static_cast<double>(stage.passes - BenchmarkRequest::kWarmUpSteps);
  for (const VisitTiming& visit : stage.timeline) {
    if (visit.pass < BenchmarkRequest::kWarmUpSteps) continue;
    UnitMeasurement& unit = units[visit.unit];
    unit.compute_ms += milliseconds(visit.compute_end - visit.compute_begin) / steps;
    unit.copy_ms += milliseconds(visit.copy_end - visit.copy_begin) / steps;
    unit.stall_ms += milliseconds(visit.stall) / steps;
  }
  return units;
}

/// A steady step of the virtual-time model, from resident compute where that is known.
double predict_step(const SizeMeasurement& measured, std::size_t ring_bytes, double link_bytes_per_second) {
  if (measured.copied_bytes == 0) return measured.resident_ms.value_or(measured.step_ms);
  TimingInputs inputs{.units = {},
                      .ring_bytes = ring_bytes,
                      .link_bytes_per_second = link_bytes_per_second,
                      .gather = std::nullopt,
                      .passes = 4};
  for (const UnitMeasurement& unit : measured.units) {
    const double compute_ms = measured.resident_ms ? unit.resident_compute_ms : unit.compute_ms;
    inputs.units.push_back(
        {unit.size_bytes, std::chrono::nanoseconds(static_cast<std::int64_t>(compute_ms * 1e6)), unit.resident});
  }
  return milliseconds(predict_timing(inputs).steady_pass);
}

/// A resident run of every size: step times, and the compute of each unit.
struct ResidentRun {
  double step_ms = 0;
  std::vector<double> unit_compute_ms;
};

std::vector<ResidentRun> run_resident(const EngineConfig& config, const BenchmarkRequest& request,
                                      const ProgressFunction& progress) {
  OffloadOptions options;
  options.record_timeline = true;
  std::unique_ptr<Device> device = make_device(config);
  std::unique_ptr<Pipeline> pipeline = open_transformer(config, device->kind());
  const Stack& stack = transformer_of(*pipeline).plan.stacks.front();
  Generator generator(std::move(device), std::move(pipeline), options);
  std::vector<ResidentRun> runs;
  for (const PictureSize& size : request.sizes) {
    const StageReport stage = run_steps(generator, size, request.steps, progress).stage;
    ResidentRun& run = runs.emplace_back();
    run.step_ms = median(steps_of(stage).measured_ms);
    for (const UnitMeasurement& unit : units_of(stage, stack)) run.unit_compute_ms.push_back(unit.compute_ms);
  }
  return runs;
}

SizeMeasurement measure_streamed(const Run& run, const PictureSize& size, const Pipeline& pipeline) {
  const auto& [stage, latent_tokens, trace] = run;
  const Steps times = steps_of(stage);
  SizeMeasurement measured;
  measured.size = size;
  measured.tokens = static_cast<std::int64_t>(kPromptLength) + latent_tokens;
  measured.step_ms = median(times.measured_ms);
  measured.slowest_step_ms = *std::ranges::max_element(times.measured_ms);
  measured.first_step_ms = times.first_ms;
  measured.copied_bytes = stage.statistics.copied_bytes / stage.passes;
  measured.device_memory = stage.memory;
  measured.units = units_of(stage, transformer_of(pipeline).plan.stacks[stage.stack]);
  for (const UnitMeasurement& unit : measured.units) measured.stall_ms += unit.stall_ms;
  measured.trace_json = trace;
  return measured;
}

void add_resident(const ResidentRun& run, SizeMeasurement& measured) {
  measured.resident_ms = run.step_ms;
  for (std::size_t i = 0; i < run.unit_compute_ms.size(); ++i)
    measured.units[i].resident_compute_ms = run.unit_compute_ms[i];
}

/// Empty, with the reason in `note`, where the weights do not fit on the device or nobody asked.
std::vector<ResidentRun> try_resident(const EngineConfig& config, const BenchmarkRequest& request,
                                      const ProgressFunction& progress, std::string& note) {
  if (!request.resident) {
    note = "not asked for";
    return {};
  }
  try {
    return run_resident(config, request, progress);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_device_memory) throw;
    note = error.message();
    return {};
  }
}

OffloadOptions streaming_options(EngineConfig config) {
  config.enable_distributed_layerwise_offload = true;
  config.record_trace = true;
  return offload_options(config);
}

}  // namespace

GenerateRequest timed_request(const PictureSize& size, std::int64_t steps) {
  GenerateRequest request;
  request.height = size.height;
  request.width = size.width;
  request.num_inference_steps = BenchmarkRequest::kWarmUpSteps + steps;
  request.guidance_scale = 1.0;
  request.output_type = OutputType::latent;
  return request;
}

double SizeMeasurement::floor_ms() const {
  double compute_ms = 0;
  for (const UnitMeasurement& unit : units) compute_ms += unit.compute_ms;
  return std::max(resident_ms.value_or(compute_ms), link_ms);
}

void check_benchmark(const EngineConfig& config, const BenchmarkRequest& request) {
  streaming_options(config);
  const LatentGeometry geometry = LatentGeometry::without_vae();
  for (const PictureSize& size : request.sizes) geometry.grid(size.height, size.width);
  activation_dtype(config.dtype, make_device(config)->kind());
}

BenchmarkResult run_benchmark(const EngineConfig& config, const BenchmarkRequest& request,
                              const ProgressFunction& progress) {
  expects(!request.sizes.empty() && request.steps >= 1, "a benchmark of {} sizes and {} steps", request.sizes.size(),
          request.steps);
  check_sizes(config, request);
  BenchmarkResult result;
  const std::vector<ResidentRun> resident = try_resident(config, request, progress, result.resident_note);

  std::unique_ptr<Device> owned_device = make_device(config);
  Device& device = *owned_device;
  std::unique_ptr<Pipeline> owned_pipeline = open_transformer(config, device.kind());
  const Pipeline& pipeline = *owned_pipeline;
  const OffloadPlan& plan = transformer_of(pipeline).plan;
  result.device = device.name();
  result.dtype = pipeline.activations() == DType::bf16 ? "bfloat16" : "float32";
  result.weight_bytes = weight_bytes(plan);
  result.link_bytes_per_second = measure_link(device, largest_unit_bytes(plan.stacks.front()));
  Generator generator(std::move(owned_device), std::move(owned_pipeline), streaming_options(config));
  for (std::size_t i = 0; i < request.sizes.size(); ++i) {
    const PictureSize& size = request.sizes[i];
    SizeMeasurement measured = measure_streamed(run_steps(generator, size, request.steps, progress), size, pipeline);
    if (!resident.empty()) add_resident(resident[i], measured);
    measured.link_ms = static_cast<double>(measured.copied_bytes) / result.link_bytes_per_second * 1e3;
    const std::size_t ring_bytes = generator.stage_reports().front().need.part.ring_bytes;
    measured.predicted_ms = predict_step(measured, ring_bytes, result.link_bytes_per_second);
    result.sizes.push_back(std::move(measured));
  }
  result.pinned_bytes = device.pinned_bytes();
  return result;
}

}  // namespace lamina
