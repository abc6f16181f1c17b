#pragma once

#include <cuda_runtime.h>
#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

/// cuDNN's backend API, as far as single operations need it: a graph describes one, a plan runs it.
namespace lamina::ops::cuda {

struct DestroyDescriptor {
  void operator()(void* descriptor) const noexcept;
};
using Descriptor = std::unique_ptr<void, DestroyDescriptor>;

/// One or several values of an attribute, with the type that cuDNN is told.
struct DnnValues {
  DnnValues(const std::int64_t& value) : DnnValues(CUDNN_TYPE_INT64, &value) {}                // NOLINT
  DnnValues(const bool& value) : DnnValues(CUDNN_TYPE_BOOLEAN, &value) {}                      // NOLINT
  DnnValues(const float& value) : DnnValues(CUDNN_TYPE_FLOAT, &value) {}                       // NOLINT
  DnnValues(const cudnnDataType_t& value) : DnnValues(CUDNN_TYPE_DATA_TYPE, &value) {}         // NOLINT
  DnnValues(const cudnnHandle_t& value) : DnnValues(CUDNN_TYPE_HANDLE, &value) {}              // NOLINT
  DnnValues(const cudnnBackendHeurMode_t& value) : DnnValues(CUDNN_TYPE_HEUR_MODE, &value) {}  // NOLINT
  DnnValues(const cudnnConvolutionMode_t& value)                                               // NOLINT
      : DnnValues(CUDNN_TYPE_CONVOLUTION_MODE, &value) {}
  DnnValues(const cudnnBackendDescriptor_t& value) : DnnValues(CUDNN_TYPE_BACKEND_DESCRIPTOR, &value) {}  // NOLINT
  template <std::size_t kCount>
  DnnValues(const std::array<std::int64_t, kCount>& values)  // NOLINT
      : DnnValues(CUDNN_TYPE_INT64, values.data(), kCount) {}

  cudnnBackendAttributeType_t type;
  const void* data;
  std::int64_t count;

 private:
  DnnValues(cudnnBackendAttributeType_t type_of_values, const void* values, std::int64_t value_count = 1)
      : type(type_of_values), data(values), count(value_count) {}
};

struct DnnAttribute {
  cudnnBackendAttributeName_t name;
  DnnValues values;
};

/// A bf16 tensor on the device.
struct DnnTensor {
  static constexpr std::int64_t kAlignmentBytes = 16;

  static bool can_be_at(const std::byte* data) noexcept {
    return reinterpret_cast<std::uintptr_t>(data) % kAlignmentBytes == 0;
  }

  std::int64_t id;
  std::array<std::int64_t, 4> extents;
  std::array<std::int64_t, 4> strides;
};

/// The descriptors of one operation. Calls throw not_implemented where cuDNN refuses what is described.
class DnnGraph {
 public:
  /// A finished descriptor, which the graph keeps.
  cudnnBackendDescriptor_t add(cudnnBackendDescriptorType_t type, const std::vector<DnnAttribute>& attributes);
  cudnnBackendDescriptor_t add_tensor(const DnnTensor& tensor);
  /// An f32 that each run gets by value.
  cudnnBackendDescriptor_t add_scalar(std::int64_t id);

 private:
  std::vector<Descriptor> kept_;
};

/// Where a tensor of the graph is: on the device, or a scalar's place on the host.
struct DnnOperand {
  std::int64_t id;
  const void* data;
};

/// A graph's only operation with the first engine of cuDNN's heuristic that is deterministic, sums in f32 and needs no
/// more than 256 MiB of workspace. Nothing is timed, so the choice is the same in every process.
class DnnPlan {
 public:
  /// On the device that is current. Throws not_implemented where cuDNN has no such engine.
  DnnPlan(DnnGraph graph, cudnnBackendDescriptor_t operation);

  std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }

  void run_async(std::initializer_list<DnnOperand> operands, std::byte* workspace, cudaStream_t stream) const;

 private:
  bool try_engine(cudnnHandle_t handle, cudnnBackendDescriptor_t config);

  DnnGraph graph_;
  Descriptor config_;
  Descriptor plan_;
  std::size_t workspace_bytes_ = 0;
};

/// The plan of `key`, from `make` where it is asked for the first time on the current device. Null where `make` throws
/// not_implemented: the caller has another way then, and the log says so. The key names the operation.
std::shared_ptr<const DnnPlan> find_dnn_plan(std::string_view operation, const std::vector<std::int64_t>& key,
                                             const std::function<DnnPlan()>& make);

}  // namespace lamina::ops::cuda
