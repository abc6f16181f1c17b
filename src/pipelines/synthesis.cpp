#include "pipelines/synthesis.h"

#include <array>
#include <string_view>

#include "base/atomic_folder.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "pipelines/flux2/flux2_synthesis.h"
#include "weights/checkpoint_writer.h"
#include "weights/synthetic_weights.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

struct Synthesizer {
  std::string_view name;
  SynthesisPlan (*plan)(const SynthesisRequest& request);
};

constexpr std::array<Synthesizer, 1> kSynthesizers{{{"flux2", &plan_flux2_synthesis}}};

void write_json(const fs::path& path, const Json& json) {
  const std::string text = json.dump(2) + "\n";
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

fs::path make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error) fail(ErrorCode::unavailable, "cannot create {}: {}", path.string(), error.message());
  return path;
}

void write_component(const SynthesisComponent& component, const SynthesisRequest& request, const fs::path& folder,
                     const std::function<void()>& between_pieces) {
  write_json(folder / "config.json", component.config);
  write_checkpoint(folder, component.stem, component.tensors, request.shards,
                   [&](const TensorSpec& tensor, std::size_t offset_bytes, std::span<std::byte> bytes) {
                     if (between_pieces) between_pieces();
                     fill_synthetic(tensor, request.seed, offset_bytes, bytes);
                   });
}

Json index_of(const SynthesisPlan& plan) {
  Json index = plan.index;
  index["scheduler"] = {"diffusers", plan.scheduler_class};
  for (const auto& [entry, stem, config, tensors] : plan.components)
    index[entry.name] = {entry.library, entry.class_name};
  return index;
}

}  // namespace

std::size_t SynthesisPlan::weight_bytes() const {
  std::size_t total = 0;
  for (const SynthesisComponent& component : components)
    for (const TensorSpec& tensor : component.tensors) total += tensor.size_bytes();
  return total;
}

SynthesisPlan plan_synthesis(const SynthesisRequest& request) {
  std::string known;
  for (const Synthesizer& family : kSynthesizers) {
    if (family.name == request.family) return family.plan(request);
    known += known.empty() ? "" : ", ";
    known += family.name;
  }
  fail(ErrorCode::invalid_argument, "family '{}' is not known; known: {}", request.family, known);
}

void write_synthetic_model(const SynthesisPlan& plan, const SynthesisRequest& request, const fs::path& destination,
                           const std::function<void()>& between_pieces) {
  for (const SynthesisComponent& component : plan.components) split_into_shards(component.tensors, request.shards);
  AtomicFolder folder(destination);
  if (folder.available_bytes() < plan.weight_bytes())
    fail(ErrorCode::unavailable, "cannot write {}: {} of weights, {} left on the disk", destination.string(),
         format_size(plan.weight_bytes()), format_size(folder.available_bytes()));
  write_json(folder.path() / "model_index.json", index_of(plan));
  write_json(make_folder(folder.path() / "scheduler") / "scheduler_config.json", plan.scheduler_config);
  for (const SynthesisComponent& component : plan.components)
    write_component(component, request, make_folder(folder.path() / component.entry.name), between_pieces);
  folder.commit();
}

}  // namespace lamina
