#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "device/device.h"
#include "device/stream.h"
#include "ops/op_context.h"
#include "tensor/arena.h"
#include "tensor/bf16.h"
#include "tensor/parameter.h"
#include "test_data.h"
#include "weights/checkpoint.h"

namespace lamina::test {

/// A device with one stream, and copies of whole tensors, f32 or bf16, that wait until they are done. On the host they
/// are f32.
class DeviceRun {
 public:
  explicit DeviceRun(std::unique_ptr<Device> device = create_cpu_device()) : device_(std::move(device)) {}

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }

  void upload(std::span<const float> values, const TensorView& tensor) {
    ASSERT_EQ(static_cast<std::int64_t>(values.size()), tensor.shape().elements());
    const PinnedBuffer host = device_->allocate_pinned(tensor.span_bytes(), "test");
    if (tensor.dtype() == DType::bf16)
      std::ranges::transform(values, reinterpret_cast<std::uint16_t*>(host.data()), narrow);
    else
      std::memcpy(host.data(), values.data(), values.size_bytes());
    stream_->copy_to_device_async(tensor.data(), host.data(), tensor.span_bytes(), "input");
    stream_->synchronize();
  }

  std::vector<float> download(const ConstTensorView& tensor) {
    EXPECT_TRUE(tensor.is_contiguous());
    const PinnedBuffer host = device_->allocate_pinned(tensor.span_bytes(), "test");
    stream_->copy_to_host_async(host.data(), tensor.data(), tensor.span_bytes(), "output");
    stream_->synchronize();
    std::vector<float> values(static_cast<std::size_t>(tensor.shape().elements()));
    if (tensor.dtype() == DType::bf16)
      std::transform(reinterpret_cast<const std::uint16_t*>(host.data()),
                     reinterpret_cast<const std::uint16_t*>(host.data()) + values.size(), values.begin(), widen);
    else
      std::memcpy(values.data(), host.data(), tensor.span_bytes());
    return values;
  }

  /// Fills memory with NaN of either dtype.
  void poison(const DeviceBuffer& memory) {
    if (memory.size_bytes() == 0) return;
    const PinnedBuffer host = device_->allocate_pinned(memory.size_bytes(), "test");
    std::memset(host.data(), 0xFF, host.size_bytes());
    stream_->copy_to_device_async(memory.data(), host.data(), host.size_bytes(), "poison");
    stream_->synchronize();
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_ = device_->create_stream("compute");
};

/// Activations and workspace that a computation needs, found by running it on shapes alone, and then reserved exactly.
class ExactMemory {
 public:
  /// `lay_out(arena)` returns what `run(laid_out, context)` runs.
  template <typename LayOut, typename Run>
  ExactMemory(DeviceRun& run_on, const std::vector<Parameter*>& parameters, const LayOut& lay_out, const Run& run) {
    const ShapeOnlyBinding binding(parameters);
    Arena measuring;
    ops::OpContext planning = ops::OpContext::planning(run_on.stream());
    auto planned = lay_out(measuring);
    run(*planned, planning);
    activations_ = run_on.device().allocate(measuring.peak_bytes(), "activations");
    workspace_ = run_on.device().allocate(planning.peak_bytes(), "workspace");
  }

  const DeviceBuffer& activations() const { return activations_; }
  const DeviceBuffer& workspace() const { return workspace_; }
  Arena arena() const { return {activations_.data(), activations_.size_bytes()}; }
  ops::OpContext context(DeviceRun& run_on) const {
    return {run_on.stream(), workspace_.data(), workspace_.size_bytes()};
  }

  void expect_used_up(const Arena& arena, const ops::OpContext& context) const {
    EXPECT_EQ(arena.peak_bytes(), activations_.size_bytes());
    EXPECT_EQ(context.peak_bytes(), workspace_.size_bytes());
  }

 private:
  DeviceBuffer activations_;
  DeviceBuffer workspace_;
};

/// An f32 tensor of a fixture file.
inline std::vector<float> read_floats(const Checkpoint& fixtures, const std::string& name) {
  const TensorSpec* spec = fixtures.find(name);
  if (spec == nullptr || spec->dtype != DType::f32) throw std::invalid_argument("no F32 fixture " + name);
  std::vector<float> values(spec->size_bytes() / sizeof(float));
  std::memcpy(values.data(), fixtures.view(*spec).data(), spec->size_bytes());
  return values;
}

inline void expect_near(std::span<const float> found, std::span<const float> expected, float tolerance,
                        const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  float worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const float difference = std::abs(found[i] - expected[i]);
    ASSERT_FALSE(std::isnan(difference)) << what << " at " << i;
    worst = std::max(worst, difference);
  }
  EXPECT_LE(worst, tolerance) << what;
}

inline const std::string& fixtures_dir() {
  static const std::string path = test_data::fixtures() / "flux2";
  return path;
}

inline const std::string& tiny_shapes_dir() {
  static const std::string path = test_data::models() / "tiny-shapes";
  return path;
}

}  // namespace lamina::test
