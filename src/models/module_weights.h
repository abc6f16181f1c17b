#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "offload/offload_plan.h"
#include "tensor/parameter.h"

namespace lamina {

/// The dtype a checkpoint stores a weight in, F32 or BF16; throws where it is another, or the checkpoint lacks it.
using DTypeOf = std::function<DType(std::string_view tensor_name)>;

/// Owns the parameters of a module tree and declares each of them once: as a `Parameter` for the model's code, and as
/// the `ParameterGroup` that the offload plan shows of it. The parameter's name is the group's runtime name.
/// Parameters stay where they are until the owner dies.
class ModuleWeights {
 public:
  /// Declared are whole tensors; with `slice_of`, parameters and groups are this rank's parts of them.
  explicit ModuleWeights(DTypeOf dtype_of, SliceOf slice_of = {})
      : dtype_of_(std::move(dtype_of)), slice_of_(std::move(slice_of)) {}
  ModuleWeights(const ModuleWeights&) = delete;
  ModuleWeights& operator=(const ModuleWeights&) = delete;

  struct Member {
    std::string name;
    Shape shape;
  };

  /// A parameter that is one checkpoint tensor.
  const Parameter* single(std::string name, const Shape& shape);
  /// `members` joined along axis 0 under a name of the model's own. Members of different dtypes are held as F32.
  const Parameter* fused(std::string runtime_name, const std::vector<Member>& members);

  /// The groups declared since the last call, in order.
  std::vector<ParameterGroup> take_groups();

  std::vector<Parameter*> parameters();

 private:
  TensorSpec spec_of(std::string name, const Shape& shape) const;
  const Parameter* declare(ParameterGroup whole);

  DTypeOf dtype_of_;
  SliceOf slice_of_;
  std::deque<Parameter> parameters_;
  std::vector<ParameterGroup> groups_;
};

}  // namespace lamina
