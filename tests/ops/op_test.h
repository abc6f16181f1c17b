#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/stream.h"
#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace lamina::testing {

/// A device whose operations are tested, with activations of one dtype.
struct Backend {
  std::string name;
  std::function<std::unique_ptr<Device>()> create;
  DType activations;
  double tolerance;  ///< of a result, relative to the norm of the expected one
};

inline void PrintTo(const Backend& backend, std::ostream* stream) {
  *stream << backend.name;
}

/// What the test program tests: each program has one of the files *_backends.cpp, and the same tests.
std::vector<Backend> backends();

inline std::string backend_name(const ::testing::TestParamInfo<Backend>& info) {
  return info.param.name;
}

using Values = std::vector<double>;

/// A device tensor and the values that were put into it, as its dtype stores them.
struct Tensor {
  TensorView view;
  Values values;
};

/// The fixture of an operation's tests:
///
///   using LinearTest = OpTest;
///   TEST_P(LinearTest, ...) { ... }
///   INSTANTIATE_TEST_SUITE_P(Devices, LinearTest, ::testing::ValuesIn(backends()), backend_name);
class OpTest : public ::testing::TestWithParam<Backend> {
 protected:
  using Operation = std::function<void(ops::OpContext&, const std::vector<TensorView>&)>;

  /// A tensor inside a wider one: `gaps[axis]` more elements lie between the axis's ends and its neighbours (none where
  /// `gaps` is empty). The surroundings hold NaN, and `read` fails the test where an operation wrote there.
  Tensor tensor(DType dtype, const Shape& shape, const Values& values, const Shape& gaps = {});
  /// Normally distributed.
  Tensor random(DType dtype, const Shape& shape, const Shape& gaps = {}, double mean = 0, double deviation = 1);
  Tensor random(const Shape& shape, const Shape& gaps = {}) { return random(activations(), shape, gaps); }
  /// To be written: NaN so far.
  Tensor blank(const Shape& shape, const Shape& gaps, DType dtype);
  Tensor blank(const Shape& shape, const Shape& gaps = {}) { return blank(shape, gaps, activations()); }
  /// A further tensor of the same shape and values.
  Tensor another(const Tensor& tensor, const Shape& gaps = {});

  DType activations() const { return GetParam().activations; }
  bool on_cpu() const { return device_->kind() == DeviceKind::cpu; }

  /// Runs `operation` on `tensors` in a workspace of exactly the planned size, and checks beside that
  ///  - planning works without data, and asks for the same scratch as running does;
  ///  - the operation names each of the tensors as an operand to the order checker.
  void run(const std::vector<Tensor>& tensors, const Operation& operation);

  /// What the device holds now.
  Values read(const Tensor& tensor);

  void expect_close(const Values& actual, const Values& expected) const;
  /// Throws the operation's error, on operands as they are.
  void plan(const std::function<void(ops::OpContext&)>& operation);

  std::unique_ptr<Device> device_ = GetParam().create();
  std::unique_ptr<Stream> stream_ = device_->create_stream("compute");

 private:
  struct Storage {
    DeviceBuffer buffer;
    TensorView whole;
    TensorView view;
    std::vector<std::byte> initial;
  };

  std::vector<std::byte> fetch(const std::byte* device_data, std::size_t size_bytes);
  void expect_announced(const Tensor& tensor, const std::function<void()>& launch);
  void expect_gaps_untouched(const Storage& storage, const std::vector<std::byte>& now);

  std::list<Storage> storages_;
  std::unique_ptr<Stream> other_stream_ = device_->create_stream("other");
  std::mt19937 engine_{7};
};

}  // namespace lamina::testing
