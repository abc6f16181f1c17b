#include <gtest/gtest.h>

#include <memory>

#include "device/cuda/cuda_device.h"
#include "ops/attention_cuda.h"
#include "ops/conv_cuda.h"
#include "ops/per_device_cuda.h"

namespace lamina::testing {
namespace {

using ops::cuda::find_convolution;
using ops::cuda::find_sdpa;
using ops::cuda::PlanCache;

class CudaPlansTest : public ::testing::Test {
 protected:
  void SetUp() override { cuda::make_current(*stream_); }

  std::unique_ptr<Device> device_ = create_cuda_device();
  std::unique_ptr<Stream> stream_ = device_->create_stream("compute");
};

TEST_F(CudaPlansTest, APlanIsMadeOncePerKey) {
  struct Plan {};
  int made = 0;
  const auto get = [&](std::int64_t key) {
    return PlanCache<Plan>::get({key}, [&] {
      ++made;
      return std::make_shared<const Plan>();
    });
  };
  const auto first = get(1);
  EXPECT_EQ(get(1), first);
  EXPECT_NE(get(2), first);
  EXPECT_EQ(made, 2);
}

TEST_F(CudaPlansTest, OldPlansGoAndLiveOnWithTheirUsers) {
  struct Plan {
    std::int64_t key;
  };
  const auto get = [](std::int64_t key) {
    return PlanCache<Plan>::get({key}, [&] { return std::make_shared<const Plan>(Plan{key}); });
  };
  const std::shared_ptr<const Plan> first = get(0);
  const std::weak_ptr<const Plan> second = get(1);
  for (std::int64_t key = 2; key < 5000; ++key) EXPECT_EQ(get(key)->key, key);
  EXPECT_TRUE(second.expired());
  EXPECT_EQ(first->key, 0);
  EXPECT_NE(get(0), first);
}

/// Heads of 128 in columns of wider rows, as a block's products give them.
ops::cuda::AttentionOperands heads_of_rows(DType dtype, std::int64_t tokens) {
  const TensorView rows(nullptr, dtype, {tokens, 9 * 4096});
  const TensorView part = rows.slice(1, 0, 4096).split_last(128);
  return {part, part, part, part, 0.088F, false};
}

TEST_F(CudaPlansTest, CudnnServesTheAttentionOfTransformers) {
  for (const std::int64_t tokens : {512, 1536, 4608, 4737})
    EXPECT_NE(find_sdpa(heads_of_rows(DType::bf16, tokens)), nullptr) << tokens;
}

TEST_F(CudaPlansTest, CudnnIsNotAskedForCausalOrF32Attention) {
  EXPECT_EQ(find_sdpa(heads_of_rows(DType::f32, 512)), nullptr);
  ops::cuda::AttentionOperands causal = heads_of_rows(DType::bf16, 512);
  causal.causal = true;
  EXPECT_EQ(find_sdpa(causal), nullptr);
}

TEST_F(CudaPlansTest, CudnnServesTheConvolutionsOfTheDecoder) {
  const ops::Conv2dOptions same{.stride = 1, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1};
  const auto plan = [&](DType dtype, std::int64_t side, std::int64_t in, std::int64_t out) {
    const TensorView x(nullptr, dtype, {side, side, in});
    const TensorView w(nullptr, DType::bf16, {out, in, 3, 3});
    const TensorView bias(nullptr, DType::bf16, {out});
    const TensorView y(nullptr, dtype, {side, side, out});
    return find_convolution({x, w, bias, same, y});
  };
  EXPECT_NE(plan(DType::bf16, 64, 32, 512), nullptr);
  EXPECT_NE(plan(DType::bf16, 64, 512, 512), nullptr);
  EXPECT_NE(plan(DType::bf16, 256, 256, 256), nullptr);
  EXPECT_NE(plan(DType::bf16, 512, 128, 128), nullptr);
  EXPECT_EQ(plan(DType::f32, 64, 32, 512), nullptr);  // its products may not be rounded
}

}  // namespace
}  // namespace lamina::testing
