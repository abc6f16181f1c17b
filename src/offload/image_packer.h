#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "offload/offload_plan.h"
#include "weights/weight_binding.h"

namespace lamina {

/// A component's bindings by the model's tensor names. They outlive the map.
class BindingMap {
 public:
  explicit BindingMap(const std::vector<WeightBinding>& bindings);
  /// Throws internal where the tensor is not bound, or bound as another one.
  const WeightBinding& of(const TensorSpec& tensor) const;

 private:
  std::unordered_map<std::string_view, const WeightBinding*> by_name_;
};

/// Makes the image of a unit (or of the weights outside the blocks) from the checkpoint, whole or piece by piece: every
/// source packs through here, so that images agree byte for byte whatever the backing. Bindings and groups
/// outlive it. Immutable, so any thread may pack.
class ImagePacker {
 public:
  ImagePacker(const std::vector<ParameterGroup>& groups, const BindingMap& bindings);

  std::size_t size_bytes() const noexcept { return size_bytes_; }
  /// Fills `destination` with the image's bytes from `offset_bytes` on, padding with zeros. Both ends are multiples of
  /// `UnitLayout::kAlignment`. Throws as `pack_weight` does.
  void pack(std::size_t offset_bytes, std::span<std::byte> destination) const;
  /// Hints that the image will be packed soon.
  void read_ahead() const noexcept;

 private:
  struct Member {
    std::size_t offset_bytes;
    std::size_t size_bytes;
    const WeightBinding* binding;
    const TensorSlice* slice;  ///< null: the whole tensor
  };

  /// Of a rank's part of a tensor.
  static void pack_slice(const Member& member, std::size_t offset_bytes, std::span<std::byte> destination);

  std::vector<Member> members_;  ///< in the order of their bytes
  std::size_t size_bytes_ = 0;
};

/// The packers of all images of a plan.
struct PartPackers {
  PartPackers(const OffloadPlan& plan, const std::vector<WeightBinding>& bindings);

  std::vector<std::vector<ImagePacker>> units;  ///< by stack and unit
  ImagePacker outside;
};

}  // namespace lamina
