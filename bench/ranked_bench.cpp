// Times denoising steps of replicas on GPUs of their own, one request each, random prompt embeddings:
//
//   lamina_ranked_bench MODEL REPLICAS PIXELS...
//
// For each side in pixels and each way to bring the weights: the median time between two passes of rank 0 (behind three
// to warm up), bytes that each rank copied over its link and that were gathered, in a step, the stall of rank 0, and
// the pinned bytes of all ranks together. The floors are those of `lamina bench` on the same machine: a link brings a
// rank all of a step's bytes (local) or its share of them (gather).

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/ranked_setup.h"
#include "lamina/error.h"

namespace {

using namespace lamina;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kWarmUp = 3;
constexpr std::int64_t kSteps = 20;

void print_mode(const char* model, std::size_t replicas, std::int64_t side, std::size_t chunks) {
  RankedConfig config;
  config.engine.model = model;
  config.engine.device = "cuda:0";
  config.engine.load_text_encoder = false;
  config.engine.enable_distributed_layerwise_offload = true;
  config.engine.dlo_host_backing = HostBackingChoice::private_pages;
  config.parallel.sizes.data = replicas;
  config.parallel.dlo_use_allgather = chunks > 0;
  config.gather_chunks = std::max<std::size_t>(chunks, 1);
  std::vector<std::string> notes;
  const RankedSetup setup = ranked_setup(config, notes);

  std::vector<GenerateRequest> requests(replicas);
  for (std::size_t i = 0; i < replicas; ++i) {
    requests[i].prompt_embeds_seed = i;
    requests[i].height = requests[i].width = side;
    requests[i].num_inference_steps = kWarmUp + kSteps;
    requests[i].output_type = OutputType::latent;
  }
  std::vector<Clock::time_point> ends;
  const RankedRun run = run_on_ranks(setup, requests, [&] { ends.push_back(Clock::now()); });
  for (const RankedOutcome& outcome : run.outcomes)
    if (outcome.failure) throw Error(outcome.failure->code, outcome.failure->message);

  std::vector<double> steps_ms;
  for (std::size_t i = kWarmUp; i < ends.size(); ++i)
    steps_ms.push_back(std::chrono::duration<double, std::milli>(ends[i] - ends[i - 1]).count());
  std::ranges::sort(steps_ms);
  std::size_t pinned = run.shared_host_bytes;
  for (const RankReport& rank : run.ranks) pinned += rank.totals.host_bytes;
  const RankTotals& totals = run.ranks.front().totals;
  const auto passes = static_cast<double>(totals.passes);
  fmt::print("{:>6} {:>10} {:>9.2f} {:>9.2f} {:>9.3f} {:>9.3f} {:>9.2f} {:>10.3f}\n", side,
             chunks == 0 ? "local" : fmt::format("gather/{}", chunks), steps_ms[steps_ms.size() / 2], steps_ms.back(),
             static_cast<double>(totals.copied_bytes) / passes / 1e9,
             static_cast<double>(totals.gathered_bytes) / passes / 1e9,
             std::chrono::duration<double, std::milli>(totals.stall).count() / passes,
             static_cast<double>(pinned) / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr, "usage: lamina_ranked_bench MODEL REPLICAS PIXELS...\n");
    return 2;
  }
  const auto replicas = static_cast<std::size_t>(std::strtoul(argv[2], nullptr, 10));
  try {
    fmt::print("{:>6} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10}\n", "px", "weights", "step ms", "slowest",
               "copied GB", "gathered", "stall ms", "pinned GB");
    for (int i = 3; i < argc; ++i)
      for (const std::size_t chunks : {0U, 1U, 2U, 4U})
        print_mode(argv[1], replicas, std::strtol(argv[i], nullptr, 10), chunks);
  } catch (const Error& error) {
    fmt::print(stderr, "lamina_ranked_bench: {}\n", error.message());
    return 1;
  }
}
