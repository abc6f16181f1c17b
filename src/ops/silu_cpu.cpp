#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "ops/cpu_launch.h"
#include "ops/cpu_ops.h"
#include "ops/onednn.h"
#include "ops/rows.h"
#include "ops/scratch.h"

namespace lamina::ops::cpu {

namespace {

/// oneDNN takes contiguous elements at its full rate only, so rows are gathered into chunks that stay in the cache.
constexpr std::size_t kChunkBytes = 256 * kKiB;

std::shared_ptr<const onednn::Primitive> swish(std::int64_t elements) {
  return onednn::cached("silu", {elements}, [&] {
    const dnnl::memory::desc memory({elements}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
    const dnnl::eltwise_forward::desc operation(dnnl::prop_kind::forward_inference, dnnl::algorithm::eltwise_swish,
                                                memory, 1.0F);
    return dnnl::eltwise_forward::primitive_desc(operation, onednn::user_scratchpad(), onednn::engine());
  });
}

/// silu of whole rows, chunk by chunk.
class ChunkedSilu {
 public:
  ChunkedSilu(OpContext& context, const ConstTensorView& x) : rows_(x.size(0)), features_(x.size(1)) {
    const auto row_bytes = static_cast<std::size_t>(features_) * sizeof(float);
    step_ = chunk_length(rows_, static_cast<std::int64_t>(kChunkBytes / row_bytes));
    full_ = swish(step_ * features_);
    last_ = rows_ % step_ == 0 ? full_ : swish(rows_ % step_ * features_);
    values_ = scratch_.add(static_cast<std::size_t>(step_) * row_bytes);
    scratchpad_ = scratch_.add(std::max(full_->scratchpad_bytes(), last_->scratchpad_bytes()));
    scratch_.obtain(context);
  }

  MemoryRange scratch() const { return scratch_.range(); }

  /// Calls consume(row, silu of that row) for each row of `x`. The row of `x` may be overwritten then.
  template <typename Consume>
  void run(const Rows<const float>& x, Consume consume) const {
    for (std::int64_t begin = 0; begin < rows_; begin += step_) {
      const std::int64_t end = std::min(begin + step_, rows_);
      float* values = scratch_.floats(values_);
      for (std::int64_t row = begin; row < end; ++row)
        std::copy_n(x[row], features_, values + (row - begin) * features_);
      const onednn::Primitive& primitive = end - begin == step_ ? *full_ : *last_;
      primitive.run(scratch_.at(scratchpad_),
                    {{DNNL_ARG_SRC, scratch_.at(values_)}, {DNNL_ARG_DST, scratch_.at(values_)}});
      for (std::int64_t row = begin; row < end; ++row) consume(row, values + (row - begin) * features_);
    }
  }

 private:
  std::int64_t rows_;
  std::int64_t features_;
  std::int64_t step_;
  std::shared_ptr<const onednn::Primitive> full_;
  std::shared_ptr<const onednn::Primitive> last_;
  Scratch scratch_;
  std::size_t values_;
  std::size_t scratchpad_;
};

}  // namespace

void silu(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  const ChunkedSilu activation(context, x);
  cpu_launch(context, "silu", {x}, {y}, activation.scratch(), [=] {
    const Rows<float> to = rows_of(y);
    activation.run(rows_of(x),
                   [&](std::int64_t row, const float* values) { std::copy_n(values, to.features, to[row]); });
  });
}

void silu_mul(OpContext& context, const ConstTensorView& gate, const ConstTensorView& up, const TensorView& y) {
  const ChunkedSilu activation(context, gate);
  cpu_launch(context, "silu_mul", {gate, up}, {y}, activation.scratch(), [=] {
    const Rows<const float> factors = rows_of(up);
    const Rows<float> to = rows_of(y);
    activation.run(rows_of(gate), [&](std::int64_t row, const float* values) {
      for (std::int64_t i = 0; i < to.features; ++i) to[row][i] = values[i] * factors[row][i];
    });
  });
}

}  // namespace lamina::ops::cpu
