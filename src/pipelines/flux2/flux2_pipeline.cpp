#include "pipelines/flux2/flux2_pipeline.h"

#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "pipelines/flux2/decode_stage.h"
#include "pipelines/flux2/denoise_stage.h"
#include "pipelines/flux2/encode_prompt_stage.h"
#include "pipelines/flux2/encode_reference_stage.h"
#include "pipelines/flux2/flux2_model.h"
#include "pipelines/pictures/image.h"

namespace lamina {
namespace {

/// "crc32 1a2b3c4d": tells inputs apart that have no place in a picture's settings.
std::string checksum(const std::vector<float>& values) {
  const auto* bytes = reinterpret_cast<const Bytef*>(values.data());
  return fmt::format("crc32 {:08x}", ::crc32_z(0, bytes, values.size() * sizeof(float)));
}

/// -1..1 as 0..1.
std::vector<float> to_unit_range(std::vector<float> values) {
  for (float& value : values) value = std::clamp(value * 0.5F + 0.5F, 0.0F, 1.0F);
  return values;
}

/// [height, width, 3] as [3, height, width].
std::vector<float> to_planes(const std::vector<float>& values) {
  const std::size_t pixels = values.size() / 3;
  std::vector<float> planes(values.size());
  for (std::size_t pixel = 0; pixel < pixels; ++pixel)
    for (std::size_t channel = 0; channel < 3; ++channel)
      planes[channel * pixels + pixel] = values[pixel * 3 + channel];
  return planes;
}

class Flux2Generation final : public Generation {
 public:
  Flux2Generation(const Flux2Model& model, const GenerateRequest& request)
      : model_(model), job_(Flux2Job::plan(model, request)) {
    if (job_.prompt_embeds.empty()) stages_.push_back(std::make_unique<EncodePromptStage>(model, job_));
    for (Flux2Reference& reference : job_.references)
      stages_.push_back(std::make_unique<EncodeReferenceStage>(model, reference));
    stages_.push_back(std::make_unique<DenoiseStage>(model, job_));
    if (job_.makes_image()) stages_.push_back(std::make_unique<DecodeStage>(model, job_));
  }

  std::vector<Stage*> stages() override {
    std::vector<Stage*> stages;
    for (const std::unique_ptr<Stage>& stage : stages_) stages.push_back(stage.get());
    return stages;
  }

  const std::vector<std::string>& notes() const override { return job_.notes; }

  GenerateResult result() override {
    GenerateResult result;
    result.settings = settings();
    if (job_.request.keep_tensors) result.tensors = tensors();
    if (!job_.makes_image()) {
      if (!job_.request.keep_tensors) result.tensors.push_back(latents(job_.latents, 1));
      return result;
    }
    const std::vector<float> image = to_unit_range(job_.image);
    RgbImage picture = quantize_image(image, job_.height, job_.width);
    result.picture = {picture.width, picture.height, std::move(picture.pixels)};
    if (job_.request.keep_tensors) result.tensors.push_back({"image", {3, job_.height, job_.width}, to_planes(image)});
    return result;
  }

 private:
  std::pair<std::string, std::string> prompt_setting() const {
    const GenerateRequest& request = job_.request;
    if (request.prompt_embeds_seed) return {"prompt_embeds", fmt::format("random:{}", *request.prompt_embeds_seed)};
    if (!request.prompt_embeds_file.empty() || request.prompt_embeds) return {"prompt_embeds", "given"};
    return {"prompt", request.prompt};
  }

  std::vector<std::pair<std::string, std::string>> settings() const {
    const GenerateRequest& request = job_.request;
    std::vector<std::pair<std::string, std::string>> settings{
        prompt_setting(),
        {"height", std::to_string(job_.height)},
        {"width", std::to_string(job_.width)},
        {"num_inference_steps", std::to_string(job_.steps)},
        {"guidance_scale", fmt::format("{}", job_.guidance_scale)}};
    if (job_.uses_guidance_branches() && !request.negative_prompt.empty() && !job_.prompts.empty())
      settings.insert(settings.begin() + 1, {"negative_prompt", request.negative_prompt});
    if (!request.sigmas.empty()) settings.emplace_back("sigmas", fmt::format("{}", fmt::join(request.sigmas, ", ")));
    if (job_.gives_noise()) settings.emplace_back("noise", checksum(job_.noise));
    if (!job_.gives_noise() || job_.schedule.adds_noise) {
      settings.emplace_back("seed", std::to_string(request.seed));
      settings.emplace_back("generator_device", request.generator_device == GeneratorDevice::cuda ? "cuda" : "cpu");
    }
    if (!job_.gives_noise())
      settings.emplace_back("noise_dtype", job_.noise_dtype == DType::bf16 ? "bfloat16" : "float32");
    for (std::size_t i = 0; i < job_.references.size(); ++i)
      settings.emplace_back(fmt::format("reference_image_{}", i + 1), checksum(job_.references[i].image.values));
    for (std::size_t i = 0; i < model_.loras().size(); ++i) {
      const Lora& lora = model_.loras()[i];
      settings.emplace_back(fmt::format("lora_{}", i + 1),
                            fmt::format("{}:{}", std::filesystem::path(lora.file).filename().string(), lora.scale));
    }
    return settings;
  }

  /// The latents behind each of `steps` steps.
  ResultTensor latents(const std::vector<float>& values, std::int64_t steps) const {
    const std::int64_t tokens = job_.grid.tokens();
    return {"latents", {steps, tokens, static_cast<std::int64_t>(values.size()) / (steps * tokens)}, values};
  }

  std::vector<ResultTensor> tensors() const {
    const auto text = [](const char* name, const std::vector<float>& values) {
      constexpr auto kTokens = static_cast<std::int64_t>(kPromptLength);
      return ResultTensor{name, {kTokens, static_cast<std::int64_t>(values.size()) / kTokens}, values};
    };
    std::vector<ResultTensor> tensors{text("prompt_embeds", job_.prompt_embeds.front())};
    if (job_.uses_guidance_branches()) tensors.push_back(text("negative_prompt_embeds", job_.prompt_embeds.back()));
    tensors.push_back(latents(job_.step_latents, job_.steps));
    return tensors;
  }

  const Flux2Model& model_;
  Flux2Job job_;
  std::vector<std::unique_ptr<Stage>> stages_;
};

class Flux2Pipeline final : public Pipeline {
 public:
  Flux2Pipeline(const ModelFolder& folder, const PipelineOptions& options) : model_(folder, options) {}

  const std::vector<ModelPart>& parts() const override { return model_.parts(); }
  DType activations() const override { return model_.activations(); }
  std::unique_ptr<Generation> start(const GenerateRequest& request) override {
    return std::make_unique<Flux2Generation>(model_, request);
  }

 private:
  Flux2Model model_;
};

}  // namespace

std::unique_ptr<Pipeline> open_flux2_pipeline(const ModelFolder& folder, const PipelineOptions& options) {
  return std::make_unique<Flux2Pipeline>(folder, options);
}

}  // namespace lamina
