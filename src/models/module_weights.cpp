#include "models/module_weights.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lamina {

const Parameter* ModuleWeights::single(std::string name, const Shape& shape) {
  return declare(ParameterGroup::single(spec_of(std::move(name), shape)));
}

const Parameter* ModuleWeights::fused(std::string runtime_name, const std::vector<Member>& members) {
  std::vector<TensorSpec> specs;
  for (const Member& member : members) specs.push_back(spec_of(member.name, member.shape));
  const bool differ = std::ranges::any_of(specs, [&](const auto& spec) { return spec.dtype != specs.front().dtype; });
  for (TensorSpec& spec : specs)
    if (differ) spec.dtype = DType::f32;
  return declare(ParameterGroup::fused(std::move(runtime_name), std::move(specs)));
}

std::vector<ParameterGroup> ModuleWeights::take_groups() {
  return std::exchange(groups_, {});
}

std::vector<Parameter*> ModuleWeights::parameters() {
  std::vector<Parameter*> result;
  for (Parameter& parameter : parameters_) result.push_back(&parameter);
  return result;
}

TensorSpec ModuleWeights::spec_of(std::string name, const Shape& shape) const {
  const DType dtype = dtype_of_(name);
  expects(dtype == DType::f32 || dtype == DType::bf16, "tensor {} is declared as {}", name, to_string(dtype));
  return TensorSpec{std::move(name), dtype, shape};
}

const Parameter* ModuleWeights::declare(ParameterGroup whole) {
  ParameterGroup group = slice_of_ ? whole.sliced(slice_of_) : std::move(whole);
  parameters_.emplace_back(group.runtime);
  groups_.push_back(std::move(group));
  return &parameters_.back();
}

}  // namespace lamina
