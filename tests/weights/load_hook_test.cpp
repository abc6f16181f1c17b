#include "weights/load_hook.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "base/expect_error.h"
#include "base/temporary_folder.h"
#include "weights/crafted_safetensors.h"

namespace lamina {
namespace {

using testing::crafted_safetensors;
using testing::expect_error;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// "norm" of four f32 and "fused" of [4, 1] f32 0, 1, 2, 3, of which the model takes every second row as "odd".
class LoadHookTest : public ::testing::Test {
 protected:
  explicit LoadHookTest(const std::vector<float>& norm = {1, -2, 0.5F, 3}) {
    std::string bytes = crafted_safetensors(R"({"norm":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
                                            R"("fused":{"dtype":"F32","shape":[4,1],"data_offsets":[16,32]}})");
    for (const float value : norm) append(value, bytes);
    for (const float value : {0.0F, 1.0F, 2.0F, 3.0F}) append(value, bytes);
    file_ = folder_.write("m.safetensors", bytes);
    checkpoint_ = std::make_unique<Checkpoint>(Checkpoint::open_file(file_));
    const StoredFormOf forms = [](const std::string& name) -> std::optional<StoredForm> {
      if (name == "norm") return StoredForm{"norm", std::nullopt, false};
      return StoredForm{"fused", RowRuns{1, 1, 2}, false};
    };
    for (const TensorSpec& tensor : {norm_, odd_}) bindings_.push_back(bind_weight(*checkpoint_, tensor, forms));
  }

  static void append(float value, std::string& bytes) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(bits >> (8 * i) & 0xFF));
  }

  const TensorSpec norm_{"norm", DType::bf16, {4}};
  const TensorSpec odd_{"odd", DType::f32, {2, 1}};
  testing::TemporaryFolder folder_;
  std::filesystem::path file_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::vector<WeightBinding> bindings_;
};

TEST_F(LoadHookTest, SeeTensorsAsTheModelHoldsThemInTheirOrder) {
  std::vector<std::vector<float>> seen;
  std::vector<std::size_t> sizes;
  const auto keep = [&](const LoadedTensor& tensor) {
    seen.push_back(tensor.floats());
    sizes.push_back(tensor.bytes().size());
  };
  const std::vector<LoadHook> hooks{{{odd_, norm_}, keep}, {{odd_}, keep}, {{}, keep}};
  run_load_hooks(hooks, bindings_);
  EXPECT_EQ(seen, (std::vector<std::vector<float>>{{1, 3}, {1, -2, 0.5F, 3}, {1, 3}}));
  EXPECT_EQ(sizes, (std::vector<std::size_t>{8, 8, 8})) << "norm is cast to bf16";
}

TEST_F(LoadHookTest, RejectNamesFileAndTensor) {
  const std::vector<LoadHook> hooks{{{odd_}, [](const LoadedTensor& tensor) { tensor.reject("it is odd"); }}};
  expect_error(ErrorCode::corrupt, {file_.string(), "tensor \"odd\": it is odd"},
               [&] { run_load_hooks(hooks, bindings_); });
}

TEST_F(LoadHookTest, WhatIsNotBoundIsAnErrorOfTheProgram) {
  const std::vector<LoadHook> hooks{{{{"norm", DType::f32, {4}}}, [](const LoadedTensor&) {}}};
  expect_error(ErrorCode::internal, {"norm F32 [4]", "not bound"}, [&] { run_load_hooks(hooks, bindings_); });
}

TEST_F(LoadHookTest, FiniteVectorsLookAtTensorsOfOneAxis) {
  const LoadHook hook = finite_vectors({norm_, odd_});
  EXPECT_EQ(hook.tensors, std::vector<TensorSpec>{norm_});
  EXPECT_NO_THROW(run_load_hooks({&hook, 1}, bindings_));
}

class BadNormTest : public LoadHookTest, public ::testing::WithParamInterface<float> {
 protected:
  BadNormTest() : LoadHookTest({1, 1, GetParam(), 1}) {}
};

INSTANTIATE_TEST_SUITE_P(Values, BadNormTest,
                         ::testing::Values(kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()));

TEST_P(BadNormTest, IsRefusedWithItsPlace) {
  const LoadHook hook = finite_vectors({norm_});
  expect_error(ErrorCode::corrupt, {file_.string(), "tensor \"norm\": element 2 is ", "finite"}, [&] {
    run_load_hooks({&hook, 1}, bindings_);
  });
}

}  // namespace
}  // namespace lamina
