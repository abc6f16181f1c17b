#include "pipelines/flux2/prompt_embeddings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>

#include "base/error.h"
#include "models/read_floats.h"
#include "pipelines/chat_prompt.h"
#include "pipelines/noise.h"
#include "weights/checkpoint.h"

namespace lamina {
namespace {

constexpr std::array<const char*, 2> kTensors{"prompt_embeds", "negative_prompt_embeds"};

void check_finite(const std::vector<float>& values, const std::string& source) {
  const auto fault = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
  if (fault != values.end())
    fail(ErrorCode::corrupt, "{} holds {} at element {}", source, *fault, fault - values.begin());
}

std::vector<float> given_embeddings(const std::optional<InputTensor>& given, const char* name, const Shape& shape) {
  if (!given)
    fail(ErrorCode::invalid_argument, "{} are missing, which guidance needs; a guidance scale of 1 does without", name);
  const Shape found{std::span<const std::int64_t>(given->shape)};
  if (found != shape || given->values.size() != static_cast<std::size_t>(shape.elements()))
    fail(ErrorCode::incompatible, "{} have shape {} and {} values; {} is expected", name, to_string(found),
         given->values.size(), to_string(shape));
  check_finite(given->values, name);
  return given->values;
}

std::vector<float> read_embeddings(const Checkpoint& checkpoint, const char* name, const Shape& shape) {
  const TensorSpec* found = checkpoint.find(name);
  if (found == nullptr)
    fail(ErrorCode::not_found, "{}: there is no tensor '{}'{}", checkpoint.path().string(), name,
         name == kTensors[1] ? ", which guidance needs; a guidance scale of 1 does without" : "");
  // A batch of one, as pipelines give it, is as good.
  const bool is_batch = found->shape.rank() == 3 && found->shape[0] == 1;
  std::vector<float> values =
      read_floats(checkpoint, {name, found->dtype, is_batch ? Shape{1, shape[0], shape[1]} : shape});
  check_finite(values, fmt::format("{}: tensor {}", checkpoint.path().string(), name));
  return values;
}

}  // namespace

bool gives_embeddings(const GenerateRequest& request) {
  const bool from_file = !request.prompt_embeds_file.empty();
  const bool from_seed = request.prompt_embeds_seed.has_value();
  const bool from_memory = request.prompt_embeds.has_value();
  const int sources = (from_file ? 1 : 0) + (from_seed ? 1 : 0) + (from_memory ? 1 : 0);
  if (sources > 1)
    fail(ErrorCode::invalid_argument, "prompt embeddings come from a file, from memory or are random, not both");
  if (request.negative_prompt_embeds && !from_memory)
    fail(ErrorCode::invalid_argument, "negative_prompt_embeds come without prompt_embeds");
  if (sources > 0 && !request.prompt.empty())
    fail(ErrorCode::invalid_argument, "a prompt and prompt embeddings exclude each other");
  return sources > 0;
}

std::vector<std::vector<float>> prompt_embeddings(const GenerateRequest& request, std::int64_t channels,
                                                  std::size_t branches) {
  const Shape shape{static_cast<std::int64_t>(kPromptLength), channels};
  std::vector<std::vector<float>> embeddings;
  if (request.prompt_embeds) {
    const std::array given{&request.prompt_embeds, &request.negative_prompt_embeds};
    for (std::size_t branch = 0; branch < branches; ++branch)
      embeddings.push_back(given_embeddings(*given.at(branch), kTensors.at(branch), shape));
    return embeddings;
  }
  if (!request.prompt_embeds_seed) {
    const Checkpoint checkpoint = Checkpoint::open_file(request.prompt_embeds_file);
    for (std::size_t branch = 0; branch < branches; ++branch)
      embeddings.push_back(read_embeddings(checkpoint, kTensors.at(branch), shape));
    return embeddings;
  }
  const auto count = static_cast<std::ptrdiff_t>(shape.elements());
  // Drawn for both branches, so that the first is the same with and without guidance.
  const std::vector<float> drawn =
      torch_randn(*request.prompt_embeds_seed, kTensors.size() * static_cast<std::size_t>(count), DType::f32);
  for (std::size_t branch = 0; branch < branches; ++branch) {
    const auto begin = drawn.begin() + static_cast<std::ptrdiff_t>(branch) * count;
    embeddings.emplace_back(begin, begin + count);
  }
  return embeddings;
}

}  // namespace lamina
