#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weights/weight_binding.h"

namespace lamina {

/// What a LoRA file adds to the weight [rows, columns] of one module, its scale included. Immutable.
class LoraDelta {
 public:
  virtual ~LoraDelta() = default;
  virtual std::int64_t rows() const noexcept = 0;
  virtual std::int64_t columns() const noexcept = 0;
  /// values += elements [first_column, first_column + size) of the row. An element's sum has one order, however the
  /// row is cut.
  virtual void add_to(std::int64_t row, std::int64_t first_column, std::span<float> values) const = 0;
};

/// A LoRA file: what it adds, by module. Read are, below each module's name,
///
/// * PEFT's lora_A.weight [rank, in] and lora_B.weight [out, rank], also as lora_down and lora_up: scale * B A;
/// * LoKr's lokr_w1 and lokr_w2, whole or as products lokr_w1_a lokr_w1_b: scale * (w1 kron w2);
/// * alpha, or PEFT's metadata: the scale is alpha / rank, 1 where neither tells, and for LoKr of two whole matrices.
///
/// Names lose the prefixes base_model.model., model.diffusion_model., diffusion_model. and transformer.
/// Source: peft (LoraLayer.get_delta_weight), lycoris (LokrModule).
struct LoraFile {
  std::filesystem::path path;
  std::map<std::string, std::shared_ptr<const LoraDelta>> modules;

  /// `scale` multiplies all of it. Throws as `Checkpoint::open_file`; incompatible naming file and tensor for factors
  /// that do not fit each other, and for tensors of other kinds of adapters (DoRA, biases, convolutions).
  static LoraFile read(const std::filesystem::path& path, float scale);
};

/// Adds a delta, or those rows of it, to a tensor. Throws incompatible naming the tensor, found and expected shapes
/// where they do not fit it.
std::shared_ptr<const WeightChange> merge_of(const TensorSpec& tensor, std::shared_ptr<const LoraDelta> delta,
                                             const std::optional<RowRuns>& rows);

}  // namespace lamina
