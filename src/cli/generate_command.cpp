#include "cli/generate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/file_flags.h"
#include "cli/generate_flags.h"
#include "cli/generate_on_ranks.h"
#include "cli/interruption.h"
#include "cli/progress_bar.h"
#include "cli/run_summary.h"
#include "cli/whole_number.h"
#include "engine/ranks/ranked_setup.h"
#include "engine/result_files.h"

namespace lamina {
namespace {

/// The files a run writes, opened before any work so that a path that cannot be written is refused at once.
struct OutputFiles {
  explicit OutputFiles(const GenerateFlags& flags) : picture(flags.output) {
    refuse_shared_file("--save-tensors", flags.save_tensors, "--output", flags.output);
    refuse_shared_file("--report", flags.report, "--output", flags.output);
    refuse_shared_file("--report", flags.report, "--save-tensors", flags.save_tensors);
    refuse_shared_file("--trace", flags.trace, "--output", flags.output);
    refuse_shared_file("--trace", flags.trace, "--save-tensors", flags.save_tensors);
    refuse_shared_file("--trace", flags.trace, "--report", flags.report);
    if (!flags.save_tensors.empty()) tensors.emplace(flags.save_tensors);
    if (!flags.report.empty()) report.emplace(flags.report);
    if (!flags.trace.empty()) trace.emplace(flags.trace);
  }

  AtomicFile picture;
  std::optional<AtomicFile> tensors;
  std::optional<AtomicFile> report;
  std::optional<AtomicFile> trace;
};

void add_noise_flags(CLI::App& command, GenerateFlags& flags) {
  GenerateRequest& request = flags.request;
  CLI::Option* seed =
      command.add_option("--seed", request.seed, "Seed of the noise; with --prompts of the first one's")
          ->check(check_natural_number)
          ->capture_default_str();
  CLI::Option* dtype = command
                           .add_option("--noise-dtype", flags.noise_dtype,
                                       "Draw the noise in float32 or bfloat16, or in the checkpoint's dtype (auto), as "
                                       "the reference pipelines do")
                           ->check(CLI::IsMember({"auto", "float32", "bfloat16"}))
                           ->capture_default_str();
  command
      .add_option("--generator-device", flags.generator_device,
                  "Draw the noise that a PyTorch generator on this device draws: cpu, or cuda (as an H100 or H200)")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command.add_option("--noise", request.noise_file, "Take tensor 'noise' of this safetensors file instead")
      ->excludes(seed)
      ->excludes(dtype);
}

void add_request_flags(CLI::App& command, GenerateFlags& flags) {
  GenerateRequest& request = flags.request;
  CLI::Option_group& text = *command.add_option_group("Text", "One of");
  text.add_option("--prompt", request.prompt, "What the picture shows");
  text.add_option("--prompts", flags.prompts,
                  "A file of prompts, one a line: a picture of each, spread over the replicas; the pictures' files are "
                  "numbered");
  text.add_option("--prompt-embeds", flags.prompt_embeds,
                  "In place of a prompt and a text encoder: a safetensors file with prompt_embeds [512, channels] and, "
                  "for guidance, negative_prompt_embeds; or random:SEED")
      ->check(
          [](const std::string& value) { return std::string(value.empty() ? "FILE or random:SEED is expected" : ""); });
  text.require_option(1);
  command.add_option("--negative-prompt", request.negative_prompt,
                     "What guidance leads away from; without guidance it has no effect");
  command.add_option("--image", flags.images, "Reference image to edit, PNG, JPEG or WebP; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--height", request.height,
                  "Pixels, a multiple of 16; default: the model's size, or the first image's")
      ->check(check_whole_number);
  command.add_option("--width", request.width, "Pixels, a multiple of 16; default as for --height")
      ->check(check_whole_number);
  command.add_option("--num-inference-steps", request.num_inference_steps, "Default: 50, distilled models 4")
      ->check(check_whole_number);
  command.add_option("--guidance-scale", request.guidance_scale, "Default: 4; distilled models take none");
  command
      .add_option(
          "--sigmas", request.sigmas,
          "Noise levels from 1 down, one for each step, with commas; the scheduler shifts them; default: even ones")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_noise_flags(command, flags);
  command
      .add_option(
          "--vae-tiling", flags.vae_tiling,
          "Stream the VAE's feature maps from host memory, in less device memory, with the same pixels: on, off, or "
          "auto (where a picture does not fit the device otherwise)")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
}

void add_output_flags(CLI::App& command, GenerateFlags& flags) {
  command.add_option("--output", flags.output, "The PNG to write")->required()->check(check_file_name);
  command
      .add_option("--save-tensors", flags.save_tensors,
                  "Write prompt_embeds, latents of every step and the image as safetensors")
      ->excludes(command.get_option("--prompts"))
      ->check(check_file_name);
  command.add_option("--report", flags.report, "Write what the run did, as JSON")->check(check_file_name);
  command.add_option("--trace", flags.trace, "Write when each block was copied and computed, for Chrome and Perfetto")
      ->check(check_file_name);
}

/// FILE or random:SEED.
void read_prompt_embeds(const std::string& argument, GenerateRequest& request) {
  constexpr std::string_view kRandom = "random:";
  if (!argument.starts_with(kRandom)) {
    request.prompt_embeds_file = argument;
    return;
  }
  std::uint64_t seed = 0;
  const char* begin = argument.data() + kRandom.size();
  const char* end = argument.data() + argument.size();
  const auto [stop, error] = std::from_chars(begin, end, seed);
  if (error != std::errc() || stop != end)
    fail(ErrorCode::invalid_argument, "--prompt-embeds {}: a file or random:SEED is expected", argument);
  request.prompt_embeds_seed = seed;
}

void check_picture_name(const std::string& output) {
  std::string extension = std::filesystem::path(output).extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
  if (output == "-" || (!extension.empty() && extension != ".png"))
    fail(ErrorCode::invalid_argument, "--output {}: pictures are written as PNG; name a .png file", output);
}

void run_generate(GenerateFlags& flags) {
  check_picture_name(flags.output);
  if (flags.noise_dtype == "float32") flags.request.noise_dtype = NoiseDType::float32;
  if (flags.noise_dtype == "bfloat16") flags.request.noise_dtype = NoiseDType::bfloat16;
  if (flags.generator_device == "cuda") flags.request.generator_device = GeneratorDevice::cuda;
  flags.request.images.assign(flags.images.begin(), flags.images.end());
  flags.request.keep_tensors = !flags.save_tensors.empty();
  if (!flags.prompt_embeds.empty()) read_prompt_embeds(flags.prompt_embeds, flags.request);
  EngineConfig config = flags.engine.parsed();
  config.load_text_encoder = flags.prompt_embeds.empty();
  config.record_trace = !flags.trace.empty();
  config.parallel = flags.ranks.parsed();
  if (flags.vae_tiling == "on") config.vae_tiling = VaeTiling::on;
  if (flags.vae_tiling == "off") config.vae_tiling = VaeTiling::off;
  inputs_of(flags);
  watch_for_interruption();
  if (flags.ranks.are_several() || !flags.prompts.empty()) return generate_on_ranks(flags, config);
  OutputFiles files(flags);

  std::vector<std::string> notes;
  const EngineConfig effective = lone_setup(config, notes);
  Engine engine(effective);
  if (effective.enable_distributed_layerwise_offload == config.enable_distributed_layerwise_offload)
    notes.insert(notes.end(), engine.notes().begin(), engine.notes().end());  // they speak of the flags given
  for (const std::string& note : notes) spdlog::info(note);
  GenerateResult result;
  {
    ProgressBar bar;
    result = engine.generate(flags.request, {.progress = [&](const Progress& progress) {
                               bar.show(progress);
                               stop_if_interrupted();
                             }});
  }
  stop_if_interrupted();
  write_png(std::move(files.picture), result);
  if (files.tensors) write_tensors(std::move(*files.tensors), result);
  if (files.report) write_text(std::move(*files.report), result.report_json);
  if (files.trace) write_text(std::move(*files.trace), result.trace_json);
  fmt::print("{}\n{}", flags.output, summarize_run(result));
}

}  // namespace

void add_generate_command(CLI::App& app) {
  const auto flags = std::make_shared<GenerateFlags>();
  CLI::App& command = *app.add_subcommand("generate", "Make a picture from a prompt");
  flags->engine.add_to(command);
  flags->engine.add_device_to(command);
  flags->ranks.add_to(command);
  add_request_flags(command, *flags);
  add_output_flags(command, *flags);
  command.callback([flags] { run_generate(*flags); });
}

}  // namespace lamina
