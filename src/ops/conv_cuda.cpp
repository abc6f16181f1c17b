#include "ops/conv_cuda.h"

#include <array>
#include <cstdint>

#include "ops/conv_kernels_cuda.h"
#include "ops/cuda_launch.h"
#include "ops/cuda_ops.h"
#include "ops/scratch.h"

namespace lamina::ops::cuda {

namespace {

constexpr std::int64_t kX = 1;
constexpr std::int64_t kW = 2;
constexpr std::int64_t kY = 3;

bool is_served(const ConvOperands& operands) {
  const Conv2dOptions& options = operands.options;
  return operands.x.dtype() == DType::bf16 && options.pad_top == options.pad_bottom &&
         options.pad_left == options.pad_right && DnnTensor::can_be_at(operands.x.data()) &&
         DnnTensor::can_be_at(operands.y.data());
}

/// [count, height, width, channels] in memory; cuDNN counts [count, channels, height, width].
cudnnBackendDescriptor_t add_channels_last(DnnGraph& graph, std::int64_t id, std::int64_t count, std::int64_t height,
                                           std::int64_t width, std::int64_t channels) {
  return graph.add_tensor({.id = id,
                           .extents = {count, channels, height, width},
                           .strides = {height * width * channels, 1, width * channels, channels}});
}

cudnnBackendDescriptor_t add_geometry(DnnGraph& graph, const Conv2dOptions& options) {
  using Pair = std::array<std::int64_t, 2>;
  const Pair strides{options.stride, options.stride};
  return graph.add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
                   {{CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2}},
                    {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT},
                    {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION},
                    {CUDNN_ATTR_CONVOLUTION_DILATIONS, Pair{1, 1}},
                    {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, strides},
                    {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Pair{options.pad_top, options.pad_left}},
                    {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Pair{options.pad_bottom, options.pad_right}}});
}

DnnPlan make_plan(const ConvOperands& operands) {
  const auto& [x, w, bias, options, y] = operands;
  DnnGraph graph;
  const auto images = add_channels_last(graph, kX, 1, x.size(0), x.size(1), x.size(2));
  const auto weights = add_channels_last(graph, kW, w.size(0), w.size(2), w.size(3), w.size(1));
  const auto results = add_channels_last(graph, kY, 1, y.size(0), y.size(1), y.size(2));
  const auto operation = graph.add(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                   {{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0F},
                                    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0F},
                                    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, add_geometry(graph, options)},
                                    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, weights},
                                    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, images},
                                    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, results}});
  return {std::move(graph), operation};
}

}  // namespace

std::shared_ptr<const DnnPlan> find_convolution(const ConvOperands& operands) {
  if (!is_served(operands)) return nullptr;
  const auto& [x, w, bias, options, y] = operands;
  return find_dnn_plan("conv2d",
                       {x.size(0), x.size(1), x.size(2), w.size(0), w.size(2), w.size(3), options.stride,
                        options.pad_top, options.pad_left},
                       [&] { return make_plan(operands); });
}

void convolve(OpContext& context, const ConvOperands& operands, const DnnPlan& plan) {
  const auto& [x, w, bias, options, y] = operands;
  const TensorView rows(nullptr, x.dtype(), {w.size(0), w.size(1) * w.size(2) * w.size(3)});
  Scratch scratch;
  const std::size_t workspace = scratch.add(plan.workspace_bytes());
  const std::size_t weights = scratch.add(rows.span_bytes());
  scratch.obtain(context);
  cuda_launch(context, "conv2d", {x, w, bias}, {y}, scratch.range(), [&](cudaStream_t stream) {
    channels_last_async(operands.w, {scratch.at(weights), rows.dtype(), rows.shape()}, stream);
    plan.run_async({{kX, operands.x.data()}, {kW, scratch.at(weights)}, {kY, operands.y.data()}}, scratch.at(workspace),
                   stream);
    add_bias_async(operands.bias, operands.y, stream);
  });
}

void conv2d(OpContext& context, const ConstTensorView& x, const ConstTensorView& w, const ConstTensorView& bias,
            const Conv2dOptions& options, const TensorView& y) {
  lamina::cuda::make_current(context.stream());  // for which plans are made
  const ConvOperands operands{x, w, bias, options, y};
  if (is_pointwise(operands)) return convolve_by_products(context, operands);
  if (const auto plan = find_convolution(operands)) return convolve(context, operands, *plan);
  convolve_by_products(context, operands);
}

}  // namespace lamina::ops::cuda
