#include <algorithm>
#include <cstdint>

#include "ops/attention_cuda.h"
#include "ops/cuda_launch.h"
#include "ops/scratch.h"

namespace lamina::ops::cuda {

namespace {

constexpr std::int64_t kQ = 1;
constexpr std::int64_t kK = 2;
constexpr std::int64_t kV = 3;
constexpr std::int64_t kOut = 4;
constexpr std::int64_t kScale = 5;

constexpr std::int64_t kMostFeatures = 256;
constexpr std::int64_t kAlignedElements = 8;

bool is_aligned(const ConstTensorView& view) {
  return DnnTensor::can_be_at(view.data()) && view.stride(0) % kAlignedElements == 0 &&
         view.stride(1) % kAlignedElements == 0 && view.size(2) % kAlignedElements == 0;
}

bool is_served(const AttentionOperands& operands) {
  return !operands.causal && operands.q.dtype() == DType::bf16 && operands.q.size(2) <= kMostFeatures &&
         is_aligned(operands.q) && is_aligned(operands.k) && is_aligned(operands.v) && is_aligned(operands.out);
}

/// As [batch, heads, tokens, features].
cudnnBackendDescriptor_t add_heads(DnnGraph& graph, std::int64_t id, const ConstTensorView& view) {
  const std::int64_t whole = std::max(view.size(0) * view.stride(0), view.size(1) * view.stride(1));
  return graph.add_tensor({.id = id,
                           .extents = {1, view.size(1), view.size(0), view.size(2)},
                           .strides = {whole, view.stride(1), view.stride(0), 1}});
}

DnnPlan make_plan(const AttentionOperands& operands) {
  DnnGraph graph;
  const cudnnBackendDescriptor_t q = add_heads(graph, kQ, operands.q);
  const cudnnBackendDescriptor_t k = add_heads(graph, kK, operands.k);
  const cudnnBackendDescriptor_t v = add_heads(graph, kV, operands.v);
  const cudnnBackendDescriptor_t out = add_heads(graph, kOut, operands.out);
  const cudnnBackendDescriptor_t scale = graph.add_scalar(kScale);
  const cudnnBackendDescriptor_t operation =
      graph.add(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR, {{CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, q},
                                                              {CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, k},
                                                              {CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, v},
                                                              {CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, out},
                                                              {CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, scale}});
  return {std::move(graph), operation};
}

}  // namespace

std::shared_ptr<const DnnPlan> find_sdpa(const AttentionOperands& operands) {
  if (!is_served(operands)) return nullptr;
  std::vector<std::int64_t> key{operands.q.size(2)};
  for (const ConstTensorView& view : {operands.q, operands.k, operands.v, ConstTensorView(operands.out)})
    key.insert(key.end(), {view.size(0), view.size(1), view.stride(0), view.stride(1)});
  return find_dnn_plan("attention", key, [&] { return make_plan(operands); });
}

void sdpa(OpContext& context, const AttentionOperands& operands, const DnnPlan& plan) {
  Scratch scratch;
  const std::size_t workspace = scratch.add(plan.workspace_bytes());
  scratch.obtain(context);
  cuda_launch(context, "attention", {operands.q, operands.k, operands.v}, {operands.out}, scratch.range(),
              [&](cudaStream_t stream) {
                plan.run_async({{kQ, operands.q.data()},
                                {kK, operands.k.data()},
                                {kV, operands.v.data()},
                                {kOut, operands.out.data()},
                                {kScale, &operands.scale}},
                               scratch.at(workspace), stream);
              });
}

}  // namespace lamina::ops::cuda
