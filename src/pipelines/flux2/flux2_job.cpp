#include "pipelines/flux2/flux2_job.h"

#include <cmath>
#include <cstring>
#include <span>

#include "base/error.h"
#include "pipelines/flux2/prompt_embeddings.h"
#include "pipelines/noise.h"

namespace lamina {
namespace {

constexpr std::int64_t kDistilledSteps = 4;
constexpr std::int64_t kBaseSteps = 50;
constexpr double kBaseGuidance = 4.0;

void decide_guidance(const Flux2Model& model, Flux2Job& job) {
  const auto asked = job.request.guidance_scale;
  if (asked && !(*asked >= 0 && *asked <= 100))
    fail(ErrorCode::invalid_argument, "guidance_scale {}: a number from 0 to 100 is expected", *asked);
  if (model.is_distilled()) {
    job.guidance_scale = 1;
    if (asked && *asked != 1)
      job.notes.push_back(fmt::format("guidance-scale {} has no effect: the model is distilled", *asked));
    return;
  }
  job.guidance_scale = asked.value_or(kBaseGuidance);
  if (job.guidance_scale > 1) return;
  if (job.guidance_scale < 1)
    job.notes.push_back(fmt::format("guidance-scale {} is taken as 1: guidance begins above 1", job.guidance_scale));
  job.guidance_scale = 1;
}

/// Generators of PyTorch on the CPU use no more of a seed.
void decide_seed(Flux2Job& job) {
  const std::uint64_t used = job.request.seed & 0xFFFFFFFFU;
  if (used == job.request.seed || job.gives_noise() || job.request.generator_device != GeneratorDevice::cpu) return;
  job.notes.push_back(
      fmt::format("seed {} draws the noise of seed {}: only its low 32 bits count", job.request.seed, used));
  job.request.seed = used;
}

void decide_references(const Flux2Model& model, Flux2Job& job) {
  const std::int64_t patch = model.geometry().patch_pixels();
  for (const InputImage& image : job.request.images) {
    Flux2Reference& reference = job.references.emplace_back();
    const std::string source =
        image.file.empty() ? fmt::format("image {} of the request", job.references.size()) : image.file;
    reference.image = prepare_reference(
        image.file.empty() ? decode_picture(std::as_bytes(std::span(image.bytes)), source) : read_picture(image.file),
        patch, source);
    reference.grid = {reference.image.height / patch, reference.image.width / patch};
    job.notes.insert(job.notes.end(), reference.image.notes.begin(), reference.image.notes.end());
  }
}

void decide_size(const Flux2Model& model, Flux2Job& job) {
  const std::int64_t standard = model.standard_side();
  const bool follows_image = !job.references.empty();
  job.height = job.request.height.value_or(follows_image ? job.references.front().image.height : standard);
  job.width = job.request.width.value_or(follows_image ? job.references.front().image.width : standard);
  job.grid = model.geometry().grid(job.height, job.width);
}

void decide_steps(const Flux2Model& model, Flux2Job& job) {
  const auto given = static_cast<std::int64_t>(job.request.sigmas.size());
  const std::int64_t standard = model.is_distilled() ? kDistilledSteps : kBaseSteps;
  job.steps = job.request.num_inference_steps.value_or(given > 0 ? given : standard);
  if (job.steps < 1) fail(ErrorCode::invalid_argument, "num_inference_steps {}: at least 1 is expected", job.steps);
}

DType decide_noise_dtype(const Flux2Model& model, NoiseDType asked) {
  if (asked == NoiseDType::automatic) return model.weights_dtype();
  return asked == NoiseDType::bfloat16 ? DType::bf16 : DType::f32;
}

void tokenize(const Flux2Model& model, Flux2Job& job) {
  job.prompts.push_back(encode_chat_prompt(model.tokenizer(), job.request.prompt));
  if (job.prompts.front().cut_count > 0)
    job.notes.push_back(fmt::format("the prompt is {} tokens longer than the {} the model reads; its end was cut off",
                                    job.prompts.front().cut_count, kPromptLength));
  if (job.uses_guidance_branches())
    job.prompts.push_back(encode_chat_prompt(model.tokenizer(), job.request.negative_prompt));
}

void note_unused_negative_prompt(Flux2Job& job) {
  if (job.request.negative_prompt.empty() || (job.uses_guidance_branches() && !job.prompts.empty())) return;
  job.notes.push_back(fmt::format("the negative prompt has no effect: {}",
                                  job.prompts.empty() ? "embeddings are given" : "there is no guidance branch"));
}

std::vector<float> read_noise_file(const std::string& file, const Shape& shape) {
  const Checkpoint checkpoint = Checkpoint::open_file(file);
  const TensorSpec* found = checkpoint.find("noise");
  if (found != nullptr && found->dtype != DType::f32)
    fail(ErrorCode::incompatible, "{}: tensor 'noise' is {}; F32 is expected", file, to_string(found->dtype));
  const ConstTensorView view = checkpoint.view({"noise", DType::f32, shape});
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  std::memcpy(values.data(), view.data(), view.span_bytes());
  return values;
}

/// Given in memory, as the file would hold it.
std::vector<float> given_noise(const InputTensor& noise, const Shape& shape) {
  if (Shape(std::span<const std::int64_t>(noise.shape)) != shape ||
      noise.values.size() != static_cast<std::size_t>(shape.elements()))
    fail(ErrorCode::incompatible, "noise has shape {} and {} values; {} is expected",
         to_string(Shape(std::span<const std::int64_t>(noise.shape))), noise.values.size(), to_string(shape));
  return noise.values;
}

/// Given, or the generator's first draw.
std::vector<float> noise_of(const GenerateRequest& request, const Shape& shape, DType dtype,
                            NoiseGenerator& generator) {
  if (request.noise && !request.noise_file.empty())
    fail(ErrorCode::invalid_argument, "noise and a noise file exclude each other");
  if (request.noise) return given_noise(*request.noise, shape);
  if (!request.noise_file.empty()) return read_noise_file(request.noise_file, shape);
  return generator.draw(static_cast<std::size_t>(shape.elements()), dtype);
}

/// The initial noise is drawn as [1, channels, rows, columns], tokens are [rows * columns, channels]; what steps add is
/// drawn as tokens, in float32. Source: Flux2KleinPipeline and FlowMatchEulerDiscreteScheduler of diffusers.
void draw_noise(const Flux2Model& model, Flux2Job& job) {
  const std::int64_t channels = model.transformer().config().in_channels;
  const std::int64_t tokens = job.grid.tokens();
  const Shape shape{1, channels, job.grid.rows, job.grid.columns};
  const auto count = static_cast<std::size_t>(shape.elements());
  NoiseGenerator generator(job.request.generator_device, job.request.seed);
  const std::vector<float> drawn = noise_of(job.request, shape, job.noise_dtype, generator);
  job.noise.resize(drawn.size());
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (std::int64_t token = 0; token < tokens; ++token)
      job.noise[static_cast<std::size_t>(token * channels + channel)] =
          drawn[static_cast<std::size_t>(channel * tokens + token)];
  for (std::int64_t step = 0; job.schedule.adds_noise && step < job.steps; ++step) {
    const std::vector<float> added = generator.draw(count, DType::f32);
    job.step_noise.insert(job.step_noise.end(), added.begin(), added.end());
  }
}

}  // namespace

std::int64_t Flux2Job::reference_tokens() const {
  std::int64_t tokens = 0;
  for (const Flux2Reference& reference : references) tokens += reference.grid.tokens();
  return tokens;
}

Flux2Job Flux2Job::plan(const Flux2Model& model, const GenerateRequest& request) {
  Flux2Job job;
  job.request = request;
  if (job.makes_image()) model.vae_config();  // refuses a model without a VAE before anything runs
  decide_guidance(model, job);
  decide_seed(job);
  decide_steps(model, job);
  decide_references(model, job);
  decide_size(model, job);
  job.schedule = model.scheduler().schedule(job.grid.tokens(), job.steps, request.sigmas);
  job.branches = job.guidance_scale > 1 ? 2 : 1;
  job.noise_dtype = decide_noise_dtype(model, request.noise_dtype);
  if (gives_embeddings(request)) {
    job.prompt_embeds = prompt_embeddings(request, model.transformer().config().text_channels, job.branches);
  } else {
    tokenize(model, job);
  }
  note_unused_negative_prompt(job);
  draw_noise(model, job);
  return job;
}

}  // namespace lamina
