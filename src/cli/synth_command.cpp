#include "cli/synth_command.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/bytes.h"
#include "cli/interruption.h"
#include "pipelines/synthesis.h"

namespace lamina {
namespace {

struct SynthFlags {
  SynthesisRequest request{.family = "flux2", .size = {}, .components = {"transformer"}};
  std::string output;
};

void run_synth(const SynthFlags& flags) {
  const SynthesisPlan plan = plan_synthesis(flags.request);
  watch_for_interruption();
  write_synthetic_model(plan, flags.request, flags.output, stop_if_interrupted);
  fmt::print("{}: {} of random weights\n", flags.output, format_size(plan.weight_bytes()));
}

}  // namespace

void add_synth_command(CLI::App& app) {
  const auto flags = std::make_shared<SynthFlags>();
  SynthesisRequest& request = flags->request;
  CLI::App& command = *app.add_subcommand("synth", "Write a model folder of random weights, for tests and benchmarks");
  command.add_option("OUT", flags->output, "The folder to write; new or empty")->required();
  command.add_option("--family", request.family, "Model family: flux2")->capture_default_str();
  command
      .add_option("--size", request.size,
                  "klein-4b, klein-9b, dev, or the path of a transformer's config.json; other components' are taken "
                  "from the folders beside its own")
      ->required();
  command
      .add_option("--component", request.components,
                  "What to write: transformer, text_encoder, vae or all; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->capture_default_str();
  command.add_option("--shards", request.shards, "Files of each component; above 1 with an index")
      ->check(CLI::Range(1, 99999))
      ->capture_default_str();
  command.add_option("--seed", request.seed, "Seed of the weights")->capture_default_str();
  command.callback([flags] { run_synth(*flags); });
}

}  // namespace lamina
