#include "offload/stored_part.h"

#include "base/file.h"
#include "weights/safetensors_writer.h"

namespace lamina::test {

Stored::Stored() {
  std::mt19937 random(3);
  plan_.component = "toy";
  plan_.lists = {{"blocks"}};
  plan_.stacks = {{"step", Phase::step, {}}};
  for (std::size_t i = 0; i < kUnits; ++i) add_unit(i, random);
  plan_.outside = {ParameterGroup::single(store({"out", DType::f32, {33}}, random))};
  write();
}

std::vector<WeightBinding> Stored::bindings() const {
  std::vector<WeightBinding> bindings;
  for (const TensorSpec& tensor : member_tensors(plan_))
    bindings.push_back(bind_weight(*checkpoint_, tensor, [this](const std::string& name) {
      const auto form = forms_.find(name);
      return form == forms_.end() ? std::nullopt : std::optional(form->second);
    }));
  return bindings;
}

TensorSpec Stored::store(TensorSpec spec, std::mt19937& random) {
  std::vector<std::byte> bytes(spec.size_bytes());
  for (std::byte& byte : bytes) byte = std::byte(random() % 120);  // finite in every dtype
  stored_.push_back({spec, std::move(bytes)});
  return spec;
}

void Stored::add_unit(std::size_t i, std::mt19937& random) {
  const std::string name = "blocks." + std::to_string(i);
  const auto width = static_cast<std::int64_t>(5 + 4 * i);
  store({name + ".ab", DType::bf16, {16, width}}, random);
  forms_[name + ".a"] = {name + ".ab", RowRuns{0, 2, 4}, false};
  forms_[name + ".b"] = {name + ".ab", RowRuns{2, 2, 4}, false};
  store({name + ".t", DType::bf16, {width, 11}}, random);
  forms_[name + ".turned"] = {name + ".t", std::nullopt, true};
  store({name + ".narrow", DType::bf16, {7, width}}, random);
  forms_[name + ".wide"] = {name + ".narrow", std::nullopt, false};
  const TensorSpec plain = store({name + ".plain", DType::f32, {3, width, 9}}, random);
  plan_.stacks[0].units.push_back(
      {name,
       "all",
       0,
       {ParameterGroup::fused(name + ".joined",
                              {{name + ".a", DType::bf16, {8, width}}, {name + ".b", DType::bf16, {8, width}}}),
        ParameterGroup::single({name + ".turned", DType::bf16, {11, width}}),
        ParameterGroup::single({name + ".wide", DType::f32, {7, width}}), ParameterGroup::single(plain)}});
}

void Stored::write() {
  std::vector<NamedTensor> named;
  for (const auto& [spec, bytes] : stored_)
    named.push_back({spec.name, ConstTensorView(bytes.data(), spec.dtype, spec.shape)});
  file_ = folder_.path() / "toy.safetensors";
  AtomicFile file(file_);
  write_safetensors(file, named);
  file.commit();
  checkpoint_.emplace(Checkpoint::open_file(file_));
}

}  // namespace lamina::test
