#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "ops/attention.h"
#include "ops/dnn_cuda.h"
#include "ops/op_context.h"
#include "tensor/tensor_view.h"

/// The two ways of attention on CUDA.
namespace lamina::ops::cuda {

struct AttentionOperands {
  ConstTensorView q;
  ConstTensorView k;  ///< with v: only the keys that are valid
  ConstTensorView v;
  TensorView out;
  float scale;
  bool causal;
};

/// cuDNN's attention of these shapes and strides. Null where it has none: with a causal mask, f32, heads of more than
/// 256 features, rows that do not start on 16 bytes.
std::shared_ptr<const DnnPlan> find_sdpa(const AttentionOperands& operands);

/// Attention by cuDNN.
void sdpa(OpContext& context, const AttentionOperands& operands, const DnnPlan& plan);

/// Attention by two products and a softmax, for as many queries at a time as 256 MiB of scores hold.
void chunked_attention(OpContext& context, const AttentionOperands& operands);

}  // namespace lamina::ops::cuda
