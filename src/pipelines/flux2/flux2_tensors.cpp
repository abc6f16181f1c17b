#include "pipelines/flux2/flux2_tensors.h"

#include "models/flux2_vae/flux2_latent_statistics.h"

namespace lamina {
namespace {

void append_members(const OffloadPlan& plan, std::vector<TensorSpec>& tensors) {
  const auto append = [&](const std::vector<ParameterGroup>& groups) {
    for (const ParameterGroup& group : groups)
      for (std::size_t member = 0; member < group.members.size(); ++member) tensors.push_back(group.stored(member));
  };
  append(plan.outside);
  for (const Stack& stack : plan.stacks)
    for (const StreamUnit& unit : stack.units) append(unit.groups);
}

}  // namespace

std::vector<TensorSpec> checkpoint_tensors(const Flux2Transformer& transformer) {
  std::vector<TensorSpec> tensors;
  append_members(transformer.plan(), tensors);
  return tensors;
}

std::vector<TensorSpec> checkpoint_tensors(const Qwen3TextEncoder& text_encoder) {
  std::vector<TensorSpec> tensors{text_encoder.embedding()};
  append_members(text_encoder.plan(), tensors);
  return tensors;
}

std::vector<TensorSpec> checkpoint_tensors(const Flux2VaeConfig& config, const Flux2VaeEncoder& encoder,
                                           const Flux2VaeDecoder& decoder, const DTypeOf& dtype_of) {
  std::vector<TensorSpec> tensors = Flux2LatentStatistics::tensors(config, dtype_of);
  append_members(encoder.plan(), tensors);
  append_members(decoder.plan(), tensors);
  return tensors;
}

}  // namespace lamina
