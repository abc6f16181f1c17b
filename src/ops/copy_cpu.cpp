#include <algorithm>

#include "ops/cpu_launch.h"
#include "ops/cpu_ops.h"
#include "ops/lines.h"

namespace lamina::ops::cpu {

void copy(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  cpu_launch(context, "copy", {x}, {y}, {}, [from = Lines(x), to = Lines(y)] {
    const auto at = [](const auto& lines, std::int64_t i, std::int64_t j, std::int64_t k) {
      return lines.first + i * lines.strides[0] + j * lines.strides[1] + k * lines.strides[2];
    };
    for (std::int64_t i = 0; i < to.extents[0]; ++i)
      for (std::int64_t j = 0; j < to.extents[1]; ++j)
        for (std::int64_t k = 0; k < to.extents[2]; ++k) std::copy_n(at(from, i, j, k), to.size_bytes, at(to, i, j, k));
  });
}

}  // namespace lamina::ops::cpu
