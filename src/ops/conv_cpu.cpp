#include <algorithm>
#include <cstdint>
#include <memory>

#include "ops/bf16.h"
#include "ops/cpu_launch.h"
#include "ops/cpu_ops.h"
#include "ops/onednn.h"
#include "ops/scratch.h"

namespace lamina::ops::cpu {

namespace {

using PrimitivePointer = std::shared_ptr<const onednn::Primitive>;
using Tag = dnnl::memory::format_tag;

constexpr auto kF32 = dnnl::memory::data_type::f32;

dnnl::memory::desc describe_image(const ConstTensorView& view) {
  return {{1, view.size(2), view.size(0), view.size(1)}, kF32, Tag::nhwc};
}

dnnl::memory::desc describe_weights(const ConstTensorView& w, Tag layout) {
  return {{w.size(0), w.size(1), w.size(2), w.size(3)}, kF32, layout};
}

dnnl::convolution_forward::primitive_desc describe_convolution(const ConstTensorView& x, const ConstTensorView& w,
                                                               const Conv2dOptions& options, const TensorView& y) {
  const dnnl::convolution_forward::desc operation(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, describe_image(x),
      describe_weights(w, Tag::any), dnnl::memory::desc({w.size(0)}, kF32, Tag::a), describe_image(y),
      {options.stride, options.stride}, {options.pad_top, options.pad_left}, {options.pad_bottom, options.pad_right});
  return {operation, onednn::user_scratchpad(), onednn::engine()};
}

struct Primitives {
  PrimitivePointer convolution;
  PrimitivePointer reorder;  ///< of the weights, from the checkpoint's layout into the one that oneDNN chose
};

Primitives primitives_for(const ConstTensorView& x, const ConstTensorView& w, const Conv2dOptions& options,
                          const TensorView& y) {
  const auto& [stride, top, left, bottom, right] = options;
  const std::initializer_list<std::int64_t> key{x.size(0), x.size(1), x.size(2), w.size(0), w.size(2), w.size(3),
                                                stride,    top,       left,      bottom,    right};
  Primitives primitives;
  primitives.convolution = onednn::cached("conv2d", key, [&] { return describe_convolution(x, w, options, y); });
  primitives.reorder = onednn::cached("conv2d weights", key, [&] {
    const dnnl::memory::desc chosen = primitives.convolution->description_of(DNNL_ARG_WEIGHTS);
    return dnnl::reorder::primitive_desc(onednn::engine(), describe_weights(w, Tag::oihw), onednn::engine(), chosen,
                                         onednn::user_scratchpad());
  });
  return primitives;
}

}  // namespace

void conv2d(OpContext& context, const ConstTensorView& x, const ConstTensorView& w, const ConstTensorView& bias,
            const Conv2dOptions& options, const TensorView& y) {
  const auto [convolution, reorder] = primitives_for(x, w, options, y);

  Scratch scratch;
  const std::size_t weights = scratch.add(convolution->description_of(DNNL_ARG_WEIGHTS).get_size());
  const std::size_t widened_weights = scratch.add(widened_bytes(w));
  const std::size_t widened_bias = scratch.add(widened_bytes(bias));
  const std::size_t scratchpad = scratch.add(std::max(convolution->scratchpad_bytes(), reorder->scratchpad_bytes()));
  scratch.obtain(context);

  cpu_launch(context, "conv2d", {x, w, bias}, {y}, scratch.range(), [=] {
    const onednn::Argument from = onednn::input(DNNL_ARG_FROM, as_f32(w, scratch.floats(widened_weights)));
    reorder->run(scratch.at(scratchpad), {from, {DNNL_ARG_TO, scratch.at(weights)}});
    convolution->run(scratch.at(scratchpad), {onednn::input(DNNL_ARG_SRC, x.data()),
                                              onednn::input(DNNL_ARG_WEIGHTS, scratch.at(weights)),
                                              onednn::input(DNNL_ARG_BIAS, as_f32(bias, scratch.floats(widened_bias))),
                                              {DNNL_ARG_DST, y.data()}});
  });
}

void upsample_nearest_2x(OpContext& context, const ConstTensorView& x, const TensorView& y) {
  cpu_launch(context, "upsample_nearest_2x", {x}, {y}, {}, [x, y] {
    const std::int64_t channels = x.size(2);
    const std::int64_t row = y.stride(0);
    const auto* from = x.as<float>();
    auto* to = y.as<float>();
    for (std::int64_t i = 0; i < x.size(0); ++i, to += 2 * row) {
      for (std::int64_t j = 0; j < x.size(1); ++j, from += channels) {
        std::copy_n(from, channels, to + 2 * j * channels);
        std::copy_n(from, channels, to + (2 * j + 1) * channels);
      }
      std::copy_n(to, row, to + row);
    }
  });
}

}  // namespace lamina::ops::cpu
