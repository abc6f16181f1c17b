#include "engine/own_checkpoint.h"

#include <algorithm>
#include <stdexcept>

#include "base/file.h"
#include "engine/engine_fixture.h"
#include "weights/safetensors_writer.h"

namespace lamina::test {

namespace fs = std::filesystem;

OwnedTensors tensors_of(const Checkpoint& checkpoint) {
  OwnedTensors tensors;
  for (const TensorSpec& spec : checkpoint.tensors()) {
    const std::byte* data = checkpoint.view(spec).data();
    tensors.push_back({spec, {data, data + spec.size_bytes()}});
  }
  return tensors;
}

OwnedTensors demo_transformer() {
  return tensors_of(Checkpoint::open(tiny_shapes() / "transformer", "diffusion_pytorch_model"));
}

void write_file(const fs::path& path, const OwnedTensors& tensors) {
  std::vector<NamedTensor> named;
  for (const OwnedTensor& tensor : tensors)
    named.push_back({tensor.spec.name, ConstTensorView(tensor.bytes.data(), tensor.spec.dtype, tensor.spec.shape)});
  AtomicFile file(path);
  write_safetensors(file, named);
  file.commit();
}

fs::path model_without_transformer(const fs::path& folder) {
  const fs::path model = folder / "model";
  fs::create_directories(model / "transformer");
  for (const char* entry : {"model_index.json", "scheduler", "text_encoder", "tokenizer", "vae"})
    fs::create_symlink(tiny_shapes() / entry, model / entry);
  fs::copy_file(tiny_shapes() / "transformer/config.json", model / "transformer/config.json");
  return model;
}

fs::path model_of(const fs::path& folder, const OwnedTensors& tensors) {
  fs::path model = model_without_transformer(folder);
  write_file(model / "transformer" / kTransformerFile, tensors);
  return model;
}

OwnedTensor take(OwnedTensors& tensors, const std::string& name) {
  const auto found = std::ranges::find_if(tensors, [&](const auto& tensor) { return tensor.spec.name == name; });
  if (found == tensors.end()) throw std::runtime_error("no tensor " + name);
  OwnedTensor tensor = std::move(*found);
  tensors.erase(found);
  return tensor;
}

}  // namespace lamina::test
