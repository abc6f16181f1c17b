#include "ops/dnn_cuda.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "ops/per_device_cuda.h"

namespace lamina::ops::cuda {

namespace {

using lamina::cuda::check;

constexpr std::int64_t kMostWorkspaceBytes = 256 * kMiB;
constexpr std::size_t kMostEngines = 16;

/// cuDNN's context of one device, which one thread at a time may use.
struct DnnHandle {
  DnnHandle() { check(cudnnCreate(&value)); }
  std::mutex mutex;
  cudnnHandle_t value = nullptr;
};

std::string last_message() {
  std::array<char, 512> message{};
  cudnnGetLastErrorString(message.data(), message.size());
  return message.data();
}

/// Describing something that cuDNN lacks is no failure of the device.
void check_described(cudnnStatus_t status) {
  const int category = CUDNN_STATUS_CATEGORY(status);
  if (category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM)
    fail(ErrorCode::not_implemented, "{}: {}", cudnnGetErrorString(status), last_message());
  check(status);
}

Descriptor create(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  check(cudnnBackendCreateDescriptor(type, &descriptor));
  return Descriptor(descriptor);
}

Descriptor describe(cudnnBackendDescriptorType_t type, const std::vector<DnnAttribute>& attributes) {
  Descriptor descriptor = create(type);
  for (const auto& [name, values] : attributes)
    check_described(cudnnBackendSetAttribute(descriptor.get(), name, values.type, values.count, values.data));
  return descriptor;
}

std::vector<Descriptor> engines_by_heuristic(cudnnBackendDescriptor_t operation_graph) {
  const Descriptor heuristic = describe(
      CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
      {{CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operation_graph}, {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A}});
  check_described(cudnnBackendFinalize(heuristic.get()));
  std::vector<Descriptor> configs;
  std::array<cudnnBackendDescriptor_t, kMostEngines> raw{};
  for (cudnnBackendDescriptor_t& config : raw)
    config = configs.emplace_back(create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)).get();
  std::int64_t found = 0;
  check_described(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.size(), &found, raw.data()));
  configs.resize(std::min(static_cast<std::size_t>(found), kMostEngines));
  return configs;
}

/// Whether an engine's results depend on timing, or its sums are not plain ones in f32.
bool is_excluded(cudnnBackendDescriptor_t config) {
  const Descriptor engine = create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  std::int64_t found = 0;
  check(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found, &raw));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  check(cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes.size(), &found,
                                 notes.data()));
  return std::any_of(notes.begin(), notes.begin() + found, [](cudnnBackendNumericalNote_t note) {
    return note != CUDNN_NUMERICAL_NOTE_TENSOR_CORE && note != CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
  });
}

}  // namespace

void DestroyDescriptor::operator()(void* descriptor) const noexcept {
  if (cudnnBackendDestroyDescriptor(descriptor) != CUDNN_STATUS_SUCCESS)
    spdlog::warn("cuDNN could not destroy a descriptor");
}

cudnnBackendDescriptor_t DnnGraph::add(cudnnBackendDescriptorType_t type, const std::vector<DnnAttribute>& attributes) {
  Descriptor descriptor = describe(type, attributes);
  check_described(cudnnBackendFinalize(descriptor.get()));
  return kept_.emplace_back(std::move(descriptor)).get();
}

cudnnBackendDescriptor_t DnnGraph::add_tensor(const DnnTensor& tensor) {
  return add(CUDNN_BACKEND_TENSOR_DESCRIPTOR, {{CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.id},
                                               {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_BFLOAT16},
                                               {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, DnnTensor::kAlignmentBytes},
                                               {CUDNN_ATTR_TENSOR_DIMENSIONS, tensor.extents},
                                               {CUDNN_ATTR_TENSOR_STRIDES, tensor.strides}});
}

cudnnBackendDescriptor_t DnnGraph::add_scalar(std::int64_t id) {
  const std::array<std::int64_t, 4> ones{1, 1, 1, 1};
  return add(CUDNN_BACKEND_TENSOR_DESCRIPTOR, {{CUDNN_ATTR_TENSOR_UNIQUE_ID, id},
                                               {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT},
                                               {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16}},
                                               {CUDNN_ATTR_TENSOR_IS_BY_VALUE, true},
                                               {CUDNN_ATTR_TENSOR_DIMENSIONS, ones},
                                               {CUDNN_ATTR_TENSOR_STRIDES, ones}});
}

DnnPlan::DnnPlan(DnnGraph graph, cudnnBackendDescriptor_t operation) : graph_(std::move(graph)) {
  DnnHandle& dnn = of_current_device<DnnHandle>();
  const std::lock_guard lock(dnn.mutex);
  const cudnnBackendDescriptor_t operation_graph =
      graph_.add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
                 {{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, dnn.value}, {CUDNN_ATTR_OPERATIONGRAPH_OPS, operation}});
  for (Descriptor& config : engines_by_heuristic(operation_graph)) {
    if (!try_engine(dnn.value, config.get())) continue;
    config_ = std::move(config);
    return;
  }
  fail(ErrorCode::not_implemented, "none of its engines is deterministic, small and runs here: {}", last_message());
}

bool DnnPlan::try_engine(cudnnHandle_t handle, cudnnBackendDescriptor_t config) {
  if (is_excluded(config)) return false;
  Descriptor plan =
      describe(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
               {{CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle}, {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config}});
  if (cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS) return false;
  std::int64_t workspace_bytes = 0;
  std::int64_t found = 0;
  check(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &found,
                                 &workspace_bytes));
  if (workspace_bytes > kMostWorkspaceBytes) return false;
  plan_ = std::move(plan);
  workspace_bytes_ = static_cast<std::size_t>(workspace_bytes);
  return true;
}

void DnnPlan::run_async(std::initializer_list<DnnOperand> operands, std::byte* workspace, cudaStream_t stream) const {
  std::vector<std::int64_t> ids;
  std::vector<const void*> data;
  for (const DnnOperand& operand : operands) {
    ids.push_back(operand.id);
    data.push_back(operand.data);
  }
  const Descriptor pack = create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<std::int64_t>(operands.size());
  check(cudnnBackendSetAttribute(pack.get(), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data()));
  check(cudnnBackendSetAttribute(pack.get(), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                                 data.data()));
  check(cudnnBackendSetAttribute(pack.get(), CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
  check(cudnnBackendFinalize(pack.get()));

  DnnHandle& dnn = of_current_device<DnnHandle>();
  const std::lock_guard lock(dnn.mutex);
  check(cudnnSetStream(dnn.value, stream));
  check(cudnnBackendExecute(dnn.value, plan_.get(), pack.get()));
}

std::shared_ptr<const DnnPlan> find_dnn_plan(std::string_view operation, const std::vector<std::int64_t>& key,
                                             const std::function<DnnPlan()>& make) {
  std::vector<std::int64_t> named(operation.begin(), operation.end());
  named.insert(named.end(), key.begin(), key.end());
  return PlanCache<DnnPlan>::get(named, [&]() -> std::shared_ptr<const DnnPlan> {
    try {
      return std::make_shared<const DnnPlan>(make());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_implemented) throw;
      spdlog::info("{} [{}]: own kernels, since cuDNN has no plan: {}", operation, fmt::join(key, ", "),
                   error.message());
      return nullptr;
    }
  });
}

}  // namespace lamina::ops::cuda
