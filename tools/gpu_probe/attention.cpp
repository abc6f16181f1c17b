#include "gpu_probe/attention.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "gpu_probe/check.h"

namespace lamina::probe {
namespace {

constexpr std::int64_t kQ = 1;
constexpr std::int64_t kK = 2;
constexpr std::int64_t kV = 3;
constexpr std::int64_t kOut = 4;
constexpr std::int64_t kScale = 5;
constexpr std::size_t kMostPlans = 8;

template <typename Value>
void set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         const Value& value) {
  check(cudnnBackendSetAttribute(descriptor, name, type, 1, &value));
}

void set_all(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
             const std::array<std::int64_t, 4>& values) {
  check(cudnnBackendSetAttribute(descriptor, name, CUDNN_TYPE_INT64, 4, values.data()));
}

}  // namespace

void DestroyDnnHandle::operator()(cudnnHandle_t handle) const noexcept {
  if (cudnnDestroy(handle) != CUDNN_STATUS_SUCCESS) std::fprintf(stderr, "cudnnDestroy failed\n");
}

DnnHandle create_dnn_handle(cudaStream_t stream) {
  cudnnHandle_t raw = nullptr;
  check(cudnnCreate(&raw));
  DnnHandle handle(raw);
  check(cudnnSetStream(raw, stream));
  return handle;
}

void Attention::DestroyDescriptor::operator()(void* descriptor) const noexcept {
  if (cudnnBackendDestroyDescriptor(descriptor) != CUDNN_STATUS_SUCCESS)
    std::fprintf(stderr, "cudnnBackendDestroyDescriptor failed\n");
}

Attention::Attention(cudnnHandle_t handle, const AttentionShape& shape) : handle_(handle), shape_(shape) {
  choose_plan(graph());
}

Attention::Descriptor Attention::create(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  check(cudnnBackendCreateDescriptor(type, &descriptor));
  return Descriptor(descriptor);
}

cudnnBackendDescriptor_t Attention::keep(Descriptor descriptor) {
  check(cudnnBackendFinalize(descriptor.get()));
  kept_.push_back(std::move(descriptor));
  return kept_.back().get();
}

cudnnBackendDescriptor_t Attention::tensor(std::int64_t id, std::int64_t token_stride) {
  Descriptor tensor = create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(tensor.get(), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  set(tensor.get(), CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_BFLOAT16);
  set(tensor.get(), CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::int64_t{16});
  set_all(tensor.get(), CUDNN_ATTR_TENSOR_DIMENSIONS, {1, shape_.heads, shape_.tokens, kHeadDim});
  set_all(tensor.get(), CUDNN_ATTR_TENSOR_STRIDES, {shape_.tokens * token_stride, kHeadDim, token_stride, 1});
  return keep(std::move(tensor));
}

cudnnBackendDescriptor_t Attention::scale() {
  Descriptor scale = create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(scale.get(), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, kScale);
  set(scale.get(), CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  set(scale.get(), CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::int64_t{16});
  set(scale.get(), CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  set_all(scale.get(), CUDNN_ATTR_TENSOR_DIMENSIONS, {1, 1, 1, 1});
  set_all(scale.get(), CUDNN_ATTR_TENSOR_STRIDES, {1, 1, 1, 1});
  return keep(std::move(scale));
}

cudnnBackendDescriptor_t Attention::graph() {
  Descriptor operation = create(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
  const auto link = [&](cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t operand) {
    set(operation.get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, operand);
  };
  link(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, tensor(kQ, shape_.qkv_stride));
  link(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, tensor(kK, shape_.qkv_stride));
  link(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, tensor(kV, shape_.qkv_stride));
  link(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, tensor(kOut, shape_.out_stride));
  link(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, scale());
  const cudnnBackendDescriptor_t operations = keep(std::move(operation));

  Descriptor graph = create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(graph.get(), CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle_);
  set(graph.get(), CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
  return keep(std::move(graph));
}

void Attention::choose_plan(cudnnBackendDescriptor_t graph) {
  Descriptor heuristic = create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph);
  set(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  const cudnnBackendDescriptor_t asked = keep(std::move(heuristic));

  std::vector<Descriptor> configs;
  std::array<cudnnBackendDescriptor_t, kMostPlans> raw{};
  for (cudnnBackendDescriptor_t& config : raw)
    config = configs.emplace_back(create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)).get();
  std::int64_t found = 0;
  check(cudnnBackendGetAttribute(asked, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.size(),
                                 &found, raw.data()));
  for (std::size_t i = 0; i < static_cast<std::size_t>(found); ++i) {
    Descriptor plan = create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle_);
    set(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw[i]);
    if (cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS) continue;
    std::int64_t workspace_bytes = 0;
    std::int64_t elements = 0;
    check(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &elements,
                                   &workspace_bytes));
    workspace_bytes_ = static_cast<std::size_t>(workspace_bytes);
    engine_ = engine_of(raw[i]);
    kept_.push_back(std::move(configs[i]));
    plan_ = std::move(plan);
    return;
  }
  fail(ErrorCode::unavailable, "cuDNN has {} plans for attention of {} tokens, and none can be built", found,
       shape_.tokens);
}

void Attention::run_async(const AttentionOperands& operands, std::byte* workspace) const {
  float scale = 1 / std::sqrt(static_cast<float>(kHeadDim));
  const std::array<std::int64_t, 5> ids{kQ, kK, kV, kOut, kScale};
  const std::array<const void*, 5> data{operands.q, operands.k, operands.v, operands.out, &scale};
  Descriptor pack = create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  check(cudnnBackendSetAttribute(pack.get(), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.size(),
                                 ids.data()));
  check(cudnnBackendSetAttribute(pack.get(), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, data.size(),
                                 data.data()));
  set(pack.get(), CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  check(cudnnBackendFinalize(pack.get()));
  check(cudnnBackendExecute(handle_, plan_.get(), pack.get()));
}

std::int64_t Attention::engine_of(cudnnBackendDescriptor_t config) {
  const Descriptor engine = create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  std::int64_t found = 0;
  check(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found, &raw));
  std::int64_t index = 0;
  check(cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &found, &index));
  return index;
}

}  // namespace lamina::probe
