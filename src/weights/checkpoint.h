#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor_spec.h"
#include "tensor/tensor_view.h"

namespace lamina {

class SafetensorsFile;
struct StoredTensor;

/// The tensors of one component folder (transformer/, text_encoder/, vae/) as mapped safetensors files: one file, or
/// the shards named by its index. Only headers are read; views point into the mappings and live as long as the
/// checkpoint. Thread safe after construction.
class Checkpoint {
 public:
  /// The weights STEM of the folder, "diffusion_pytorch_model" or "model", in a variant or not, as `find_weights` finds
  /// them: with an index, the tensors that it names and no others, each from the file that it names. Throws as
  /// `find_weights` does, not_found naming a shard of the index or a tensor of a shard, corrupt naming file, tensor and
  /// field.
  static Checkpoint open(const std::filesystem::path& folder, const std::string& stem, const std::string& variant = {});
  /// One safetensors file.
  static Checkpoint open_file(const std::filesystem::path& file);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  /// Specs of all tensors, by name.
  const std::vector<TensorSpec>& tensors() const noexcept;
  /// The spec, or nullptr.
  const TensorSpec* find(std::string_view name) const noexcept;
  /// The dtype; throws not_found naming folder and tensor.
  DType dtype_of(std::string_view name) const;
  /// The dtype in which a model holds a weight: F32 or BF16, as it is stored, and BF16 for F16. Throws not_implemented
  /// naming file and tensor for another one.
  DType weight_dtype_of(std::string_view name) const;
  /// The mapped bytes of a tensor whose spec must equal `expected`. Throws not_found, or incompatible naming the file,
  /// the tensor, what was found and what was expected. The bytes may be unaligned for their dtype: copy them, or read
  /// elements through memcpy.
  ConstTensorView view(const TensorSpec& expected) const;

  /// Where a tensor stands, or nullptr members where there is none of that name. Lives as long as the checkpoint.
  struct Location {
    const SafetensorsFile* file = nullptr;
    const StoredTensor* tensor = nullptr;
  };
  Location locate(std::string_view name) const noexcept;
  /// The files that were opened: the only one, or the shards that the index names.
  std::vector<const SafetensorsFile*> files() const;

  /// Folder or file, for messages.
  const std::filesystem::path& path() const noexcept;

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lamina
