#include "pipelines/flux2/flux2_ranks.h"

#include <fmt/ranges.h>

#include <vector>

#include "models/flux2/flux2_shards.h"
#include "models/qwen3/qwen3_shards.h"

namespace lamina {
namespace {

TensorParallel part_of(const Communicator* group) {
  if (group == nullptr) return {};
  return {static_cast<std::int64_t>(group->size()), static_cast<std::int64_t>(group->rank())};
}

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> result;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) result.push_back(divisor);
  return result;
}

}  // namespace

TensorParallel transformer_part(const ConfigReader& file, const Flux2Config& config, const ModelGroups& groups) {
  const TensorParallel part = part_of(groups.tensor);
  const auto check = [&](std::string_view field, std::string_view what, std::int64_t count) {
    if (count % part.degree != 0)
      file.reject(field, fmt::format("{} {}, which --tensor-parallel-size {} does not divide; possible are {}", count,
                                     what, part.degree, fmt::join(flux2_tensor_parallel_degrees(config), ", ")));
  };
  check("num_attention_heads", "attention heads", config.heads);
  check("mlp_ratio", "feed-forward features", config.mlp_width);
  const std::int64_t heads = config.heads / part.degree;
  const std::int64_t sequence = part_of(groups.sequence).degree;
  if (heads % sequence != 0)
    file.reject("num_attention_heads",
                fmt::format("{} attention heads on each of --tensor-parallel-size {} ranks, which --usp {} does not "
                            "divide; possible are {}",
                            heads, part.degree, sequence, fmt::join(divisors(heads), ", ")));
  return part;
}

TensorParallel text_encoder_part(const ConfigReader& file, const Qwen3Config& config, const Communicator* group) {
  const TensorParallel part = part_of(group);
  const auto check = [&](std::string_view field, std::string_view what, std::int64_t count) {
    if (count % part.degree != 0)
      file.reject(field, fmt::format("{} {}, which --tensor-parallel-size {} does not divide; possible are {}, or "
                                     "--text-encoder-tp-size 1, which keeps the text encoder whole on every rank",
                                     count, what, part.degree, fmt::join(qwen3_tensor_parallel_degrees(config), ", ")));
  };
  check("num_attention_heads", "attention heads", config.heads);
  check("num_key_value_heads", "key and value heads", config.kv_heads);
  check("intermediate_size", "feed-forward features", config.intermediate);
  return part;
}

}  // namespace lamina
