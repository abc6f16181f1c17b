#pragma once

#include <memory>

#include "ops/conv.h"
#include "ops/dnn_cuda.h"
#include "ops/op_context.h"
#include "tensor/tensor_view.h"

/// The two ways of convolution on CUDA.
namespace lamina::ops::cuda {

struct ConvOperands {
  ConstTensorView x;
  ConstTensorView w;
  ConstTensorView bias;
  Conv2dOptions options;
  TensorView y;
};

/// Whether the windows of the kernel are the pixels themselves.
bool is_pointwise(const ConvOperands& operands);

/// cuDNN's convolution of these shapes. Null where it has none or is not asked: for f32, whose products may not be
/// rounded, and for padding that differs between two sides.
std::shared_ptr<const DnnPlan> find_convolution(const ConvOperands& operands);

/// Convolution by cuDNN; the bias by a kernel.
void convolve(OpContext& context, const ConvOperands& operands, const DnnPlan& plan);

/// Convolution as a product: the windows of as many pixels at a time as fit into 128 MiB, times the weights.
/// Pointwise kernels take the pixels as they are.
void convolve_by_products(OpContext& context, const ConvOperands& operands);

}  // namespace lamina::ops::cuda
