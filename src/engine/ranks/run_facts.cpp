#include "engine/ranks/run_facts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "engine/ranks/ranked_run.h"

namespace lamina {
namespace {

/// FNV-1a, for telling things apart that nobody made alike on purpose.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

template <typename T>
std::string text_of(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "-";
}

std::string describe(const GenerateRequest& request) {
  std::vector<std::string> images;
  for (const InputImage& image : request.images) images.push_back(image.file);
  return fmt::format(
      "prompt '{}' not '{}', embeddings '{}' {}, images {}, height {}, width {}, steps {}, sigmas {}, guidance {}, "
      "seed {}, noise {} {} '{}', output {}, tensors {}",
      request.prompt, request.negative_prompt, request.prompt_embeds_file, text_of(request.prompt_embeds_seed), images,
      text_of(request.height), text_of(request.width), text_of(request.num_inference_steps), request.sigmas,
      text_of(request.guidance_scale), request.seed, static_cast<int>(request.generator_device),
      static_cast<int>(request.noise_dtype), request.noise_file, static_cast<int>(request.output_type),
      request.keep_tensors);
}

std::vector<std::byte> to_bytes(const RunFacts& facts) {
  std::vector<std::byte> bytes;
  const auto append = [&](const std::string& text) {
    for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
    bytes.push_back(std::byte{0});
  };
  for (const auto& [name, value] : facts) {
    append(name);
    append(value);
  }
  return bytes;
}

RunFacts facts_from(const std::vector<std::byte>& bytes) {
  std::vector<std::string> texts(1);
  for (const std::byte byte : bytes)
    if (byte == std::byte{0})
      texts.emplace_back();
    else
      texts.back().push_back(static_cast<char>(byte));
  RunFacts facts;
  for (std::size_t i = 0; i + 1 < texts.size(); i += 2) facts.emplace_back(texts[i], texts[i + 1]);
  return facts;
}

/// Throws for the first fact that a rank has otherwise than the first rank.
[[noreturn]] void fail_for(std::size_t rank, const RunFacts& found, std::size_t first, const RunFacts& expected) {
  for (std::size_t i = 0; i < std::max(found.size(), expected.size()); ++i) {
    static const RunFacts::value_type kNothing{"", "nothing"};
    const auto& [name, value] = i < found.size() ? found[i] : kNothing;
    const auto& [expected_name, expected_value] = i < expected.size() ? expected[i] : kNothing;
    if (name == expected_name && value == expected_value) continue;
    fail(ErrorCode::incompatible, "rank {} was started otherwise than rank {}: {} is {}, not {}; start all alike", rank,
         first, name.empty() ? expected_name : name, value, expected_value);
  }
  fail(ErrorCode::internal, "the facts of rank {} differ in their bytes alone", rank);
}

}  // namespace

std::string fingerprint(const std::vector<ModelPart>& parts) {
  constexpr std::size_t kSampleBytes = 4096;  // of each weight: read all, they would be read twice
  std::string text;
  std::size_t weights = 0;
  const auto append = [&](const std::vector<ParameterGroup>& groups) {
    for (const ParameterGroup& group : groups)
      for (const TensorSpec& member : group.members) {
        text += fmt::format("{} {} {}\n", member.name, to_string(member.dtype), to_string(member.shape));
        ++weights;
      }
  };
  for (const ModelPart& part : parts) {
    text += part.plan.component + "\n";
    for (const TensorSpec& tensor : part.checkpoint.tensors()) {
      const auto* bytes = reinterpret_cast<const char*>(part.checkpoint.view(tensor).data());
      text += fmt::format("{:016x}\n", hash({bytes, std::min(tensor.size_bytes(), kSampleBytes)}));
    }
    append(part.plan.outside);
    for (const Stack& stack : part.plan.stacks)
      for (const StreamUnit& unit : stack.units) append(unit.groups);
  }
  return fmt::format("{} weights, fingerprint {:016x}", weights, hash(text));
}

RunFacts facts_of(const RankedSetup& setup, const std::vector<GenerateRequest>& requests) {
  const ParallelSizes& sizes = setup.topology.sizes();
  const OffloadOptions& offload = setup.offload;
  RunFacts facts{
      {"the model", setup.model},
      {"--data-parallel-size", fmt::format("{}", sizes.data)},
      {"--usp", fmt::format("{}", sizes.sequence)},
      {"--tensor-parallel-size", fmt::format("{}", sizes.tensor)},
      {"--hsdp-shard-size", fmt::format("{}", sizes.hsdp_shard)},
      {"the group that gathers weights",
       setup.weights ? fmt::format("{}", to_string(*setup.weights)) : std::string("none")},
      {"--dlo-gather-chunks", fmt::format("{}", setup.chunks)},
      {"the place of shards", setup.shards == ShardPlace::device ? "device" : "host"},
      {"--enable-distributed-layerwise-offload", fmt::format("{}", offload.stream)},
      {"--dlo-slots", fmt::format("{}", offload.ring_slots)},
      {"--dlo-resident-layers", fmt::format("{}", offload.resident_blocks)},
      {"--dlo-resident-policy", fmt::format("{}", static_cast<int>(offload.resident_policy))},
      {"--max-concurrent-requests-per-replica", fmt::format("{}", setup.samples_per_replica)},
      {"--dlo-wave-policy", setup.wave_policy == WavePolicy::strict ? "strict" : "ragged"},
      {"LAMINA_CPU_THREADS", fmt::format("{}", cpu_team_size())},
      {"the number of requests", fmt::format("{}", requests.size())},
  };
  facts.insert(facts.end(), setup.also_alike.begin(), setup.also_alike.end());
  for (std::size_t i = 0; i < requests.size(); ++i)
    facts.emplace_back(fmt::format("request {}", i + 1), describe(requests[i]));
  return facts;
}

void agree_on(const RunFacts& facts, HostExchange& rounds, std::span<const std::size_t> ranks) {
  const std::vector<std::vector<std::byte>> all = rounds.all_gather(to_bytes(facts));
  expects(all.size() == ranks.size(), "{} processes brought facts, of {}", all.size(), ranks.size());
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i] != all.front()) fail_for(ranks[i], facts_from(all[i]), ranks[0], facts_from(all.front()));
}

}  // namespace lamina
