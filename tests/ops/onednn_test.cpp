#include "ops/onednn.h"

#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "device/catch_error.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/team_scope.h"
#include "op_test.h"
#include "ops/linear.h"

namespace lamina::testing {
namespace {

using ops::onednn::cached;
using ops::onednn::engine;
using ops::onednn::matrix;
using ops::onednn::user_scratchpad;
using ::testing::HasSubstr;

dnnl::matmul::primitive_desc square_matmul(std::int64_t size) {
  const dnnl::memory::desc square = matrix({size, size}, {size, 1});
  return {dnnl::matmul::desc(square, square, square), user_scratchpad(), engine()};
}

TEST(OneDnnCacheTest, MakesAPrimitiveOncePerOperationAndKey) {
  int made = 0;
  const auto get = [&](std::string_view operation, std::int64_t size) {
    return cached(operation, {size}, [&] {
      ++made;
      return square_matmul(size);
    });
  };
  const auto first = get("cache test", 8);
  EXPECT_EQ(get("cache test", 8), first);
  EXPECT_EQ(made, 1);
  EXPECT_NE(get("cache test", 9), first);
  EXPECT_NE(get("another cache test", 8), first);
  EXPECT_EQ(made, 3);
}

TEST(OneDnnCacheTest, ThreadsShareOnePrimitive) {
  std::vector<std::shared_ptr<const ops::onednn::Primitive>> primitives(8);
  std::vector<std::thread> threads;
  for (auto& primitive : primitives) {
    threads.emplace_back([&] { primitive = cached("thread test", {5}, [] { return square_matmul(5); }); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set(primitives.begin(), primitives.end()).size(), 1U);
}

TEST(OneDnnCacheTest, MakesPrimitivesForTheTeamOfStreams) {
  const int own = cpu_team_size() + 3;
  const cpu::TeamScope scope(own);
  int seen = 0;
  cached("team test", {1}, [&] {
    seen = cpu::thread_team_size();
    return square_matmul(3);
  });
  EXPECT_EQ(seen, cpu_team_size());
  EXPECT_EQ(cpu::thread_team_size(), own);
}

TEST(OneDnnCacheTest, NamesWhatOneDnnRefuses) {
  const Error error = catch_error([] {
    cached("refused test", {3, 4}, [] {
      const dnnl::matmul::desc operation(matrix({2, 3}, {3, 1}), matrix({4, 5}, {5, 1}), matrix({2, 5}, {5, 1}));
      return dnnl::matmul::primitive_desc(operation, user_scratchpad(), engine());
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::not_implemented);
  EXPECT_THAT(error.message(), HasSubstr("refused test: oneDNN has no primitive for [3, 4]"));
}

using ConcurrentStreamsTest = OpTest;

TEST_P(ConcurrentStreamsTest, ShareAPrimitiveButNoScratch) {
  const Tensor x = random({64, 96});
  const Tensor w = random(DType::bf16, {80, 96});
  const Tensor y[2] = {blank({64, 80}), blank({64, 80})};
  ops::OpContext planning = ops::OpContext::planning(*stream_);
  ops::linear(planning, x.view, w.view, y[0].view);

  const std::unique_ptr<Stream> second = device_->create_stream("second");
  const DeviceBuffer workspaces[2] = {device_->allocate(planning.peak_bytes(), "workspace"),
                                      device_->allocate(planning.peak_bytes(), "workspace")};
  ops::OpContext contexts[2] = {{*stream_, workspaces[0].data(), planning.peak_bytes()},
                                {*second, workspaces[1].data(), planning.peak_bytes()}};
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 2; ++i) ops::linear(contexts[i], x.view, w.view, y[i].view);
  }
  stream_->synchronize();
  second->synchronize();
  EXPECT_EQ(read(y[0]), read(y[1]));
  EXPECT_GT(read(y[0])[0] * read(y[0])[0], 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, ConcurrentStreamsTest, ::testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace lamina::testing
