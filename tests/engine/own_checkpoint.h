#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "tensor/tensor_spec.h"
#include "weights/checkpoint.h"

namespace lamina::test {

// Models like the demo model, with a transformer checkpoint that a test makes.

inline constexpr const char* kTransformerFile = "diffusion_pytorch_model.safetensors";

/// A tensor of a checkpoint that a test writes.
struct OwnedTensor {
  TensorSpec spec;
  std::vector<std::byte> bytes;
};
using OwnedTensors = std::vector<OwnedTensor>;

OwnedTensors tensors_of(const Checkpoint& checkpoint);
OwnedTensors demo_transformer();
/// Removes a tensor and returns it; throws where there is none of that name.
OwnedTensor take(OwnedTensors& tensors, const std::string& name);
void write_file(const std::filesystem::path& path, const OwnedTensors& tensors);

/// The demo model in `folder`, with a transformer folder of its own that holds only the configuration yet.
std::filesystem::path model_without_transformer(const std::filesystem::path& folder);
/// The same, with these tensors in one file.
std::filesystem::path model_of(const std::filesystem::path& folder, const OwnedTensors& tensors);

}  // namespace lamina::test
