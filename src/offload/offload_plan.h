#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor_spec.h"
#include "weights/tensor_slice.h"

namespace lamina {

/// How often the weights of a stack are needed.
enum class Phase {
  step,      ///< in every denoising step
  prompt,    ///< once per prompt; the outputs are kept
  schedule,  ///< once per list of timesteps; the outputs are tabulated
};

std::string_view to_string(Phase phase) noexcept;

/// The part of a checkpoint's tensor that a rank holds.
using SliceOf = std::function<TensorSlice(const TensorSpec& stored)>;

/// A runtime parameter and the checkpoint tensors that make it up: one tensor, or several of one dtype whose rows
/// follow each other (q | k | v fused into one matrix). Members lie contiguously in every image, so fusing costs
/// nothing. Under tensor parallelism, runtime parameter and members are the rank's parts.
struct ParameterGroup {
  TensorSpec runtime;
  std::vector<TensorSpec> members;
  std::vector<TensorSlice> slices;  ///< where the members are cut from; empty: they are whole tensors

  /// A parameter that is one checkpoint tensor of the same name.
  static ParameterGroup single(TensorSpec tensor);
  /// `members` joined along axis 0 under a name of the model's own. Throws incompatible naming the members where dtypes
  /// or trailing extents differ.
  static ParameterGroup fused(std::string runtime_name, std::vector<TensorSpec> members);

  /// The same parameter of a rank that holds `slice_of` each member; members stay adjacent. Of a group of whole
  /// tensors.
  ParameterGroup sliced(const SliceOf& slice_of) const;
  /// The tensor of the checkpoint that a member is, or is cut from.
  const TensorSpec& stored(std::size_t member) const;

  bool operator==(const ParameterGroup&) const = default;
};

/// A list of blocks of equal structure ("transformer_blocks"), in the checkpoint's spelling.
struct BlockList {
  std::string name;
  bool resident_eligible = true;  ///< its blocks may be kept on the device
  bool operator==(const BlockList&) const = default;
};

/// The smallest piece of weights that moves at once: a block, or a part of one.
struct StreamUnit {
  std::string block;     ///< "transformer_blocks.3"
  std::string part;      ///< "all", or the part's name where the block is split ("attention", "feed_forward")
  std::size_t list = 0;  ///< index into OffloadPlan::lists
  std::vector<ParameterGroup> groups;
  bool operator==(const StreamUnit&) const = default;
};

/// The units of one model part that a traversal visits in this order.
struct Stack {
  std::string name;  ///< "step", "prompt", "expert_high_noise"
  Phase phase = Phase::step;
  std::vector<StreamUnit> units;
  bool operator==(const Stack&) const = default;
};

/// What a model part says of its weights: which of them stream, in which order, and which stay on the device while the
/// part is active. Pure data; the model makes it from its configuration.
struct OffloadPlan {
  std::string component;  ///< "transformer", "text_encoder", "vae"
  std::vector<BlockList> lists;
  std::vector<Stack> stacks;
  std::vector<ParameterGroup> outside;  ///< prologue and epilogue

  /// Throws internal naming the first fault: a name used twice, an empty stack or unit, a list index out of range,
  /// members that do not make up their runtime parameter.
  void validate() const;

  /// The same plan of the same checkpoint makes the same images.
  bool operator==(const OffloadPlan&) const = default;
};

/// The checkpoint tensors that make up all parameters: outside, then stack by stack.
std::vector<TensorSpec> member_tensors(const OffloadPlan& plan);

/// Bytes of the members, without padding. Throws incompatible naming the parameter where they do not fit 64 bits: the
/// shapes come from configurations.
std::size_t weight_bytes(const ParameterGroup& group);
std::size_t weight_bytes(const std::vector<ParameterGroup>& groups);
std::size_t weight_bytes(const OffloadPlan& plan);

}  // namespace lamina
