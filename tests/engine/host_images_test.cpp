// Weights that rank-local ranks of one process hold together: packed once, read by all.

#include "engine/residency/host_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

#include "base/bytes.h"
#include "base/error.h"
#include "base/expect_error.h"
#include "engine/ranked_fixture.h"
#include "engine/residency/host_backing.h"
#include "engine/residency/host_need.h"

namespace lamina::test {
namespace {

using lamina::testing::expect_error;

std::shared_ptr<HostMemoryBudget> host_budget(std::optional<std::size_t> limit_bytes = std::nullopt) {
  return std::make_shared<HostMemoryBudget>(limit_bytes, "/no/such/root");
}

OffloadOptions streamed(HostBackingChoice backing) {
  return {.stream = true, .host_backing = backing, .poison_released = true};
}

/// What so many ranks pin together to load.
std::vector<MemoryNeed> need_of(const OffloadOptions& options, std::size_t ranks) {
  const auto pipeline = open_pipeline(ModelFolder::open(tiny_shapes()));
  return loading_need(pipeline->parts(), plan_host_weights(pipeline->parts(), options), options.residency(), ranks);
}

RankedSetup local_ranks(std::size_t ranks, HostBackingChoice backing, const std::shared_ptr<HostMemoryBudget>& budget) {
  return tiny_ranks(ranks, streamed(backing), 0,
                    [budget](std::size_t) { return CpuDeviceOptions{.host_memory = budget}; });
}

std::size_t peak_of(const HostMemoryBudget& budget, std::string_view name) {
  for (const MemoryPart& part : budget.use().parts)
    if (part.name == name) return part.peak_bytes;
  return 0;
}

struct SharedRun {
  std::size_t weights = 0;
  RankedRun run;
};

SharedRun run_ranks_of(std::size_t ranks, HostBackingChoice backing) {
  const auto budget = host_budget();
  RankedRun run =
      run_on_ranks(local_ranks(ranks, backing, budget), std::vector<GenerateRequest>(ranks, ragged_requests()[4]));
  EXPECT_EQ(budget->use().used_bytes, 0U);
  return {peak_of(*budget, "weights"), std::move(run)};
}

class SharedHostImages : public ::testing::TestWithParam<HostBackingChoice> {};

INSTANTIATE_TEST_SUITE_P(Backings, SharedHostImages,
                         ::testing::Values(HostBackingChoice::private_pages, HostBackingChoice::mapped),
                         [](const auto& choice) {
                           return choice.param == HostBackingChoice::mapped ? "mapped" : "private";
                         });

TEST_P(SharedHostImages, OfFourRanksAreThoseOfOne) {
  const SharedRun one = run_ranks_of(1, GetParam());
  const SharedRun four = run_ranks_of(4, GetParam());
  EXPECT_EQ(one.weights, need_of(streamed(GetParam()), 1).front().size_bytes);
  EXPECT_EQ(four.weights, one.weights);
  EXPECT_EQ(four.run.shared_host_bytes, four.weights);
  for (const RankReport& rank : four.run.ranks) {
    EXPECT_FALSE(rank.fault);
    EXPECT_EQ(rank.totals.host_bytes, one.run.ranks[0].totals.host_bytes);  // staging of mapped weights
    EXPECT_EQ(rank.totals.host_bytes == 0, GetParam() == HostBackingChoice::private_pages);
  }
  for (const RankedOutcome& outcome : four.run.outcomes) {
    ASSERT_TRUE(outcome.result);
    EXPECT_EQ(outcome.result->tensors.front().values, one.run.outcomes[0].result->tensors.front().values);
  }
}

TEST_P(SharedHostImages, AreRefusedForAllRanksBeforeAnythingIsPacked) {
  const std::vector<MemoryNeed> need = need_of(streamed(GetParam()), 3);
  const auto budget = host_budget(total_bytes(need) - 1);
  const RankedRun run = run_on_ranks(local_ranks(3, GetParam(), budget), {ragged_requests()[4]});
  EXPECT_EQ(peak_of(*budget, "weights"), 0U);
  ASSERT_EQ(run.ranks.size(), 3U);
  for (const RankReport& rank : run.ranks) {
    ASSERT_TRUE(rank.fault);
    EXPECT_EQ(rank.fault->failure.code, ErrorCode::out_of_host_memory);
    EXPECT_THAT(rank.fault->failure.message, ::testing::HasSubstr(format_size(total_bytes(need)) + " asked for"));
  }
  EXPECT_TRUE(run.outcomes[0].failure);
}

/// Exactly what is checked beforehand suffices for loading.
TEST_P(SharedHostImages, LoadWithinWhatWasCheckedForAllRanks) {
  const auto budget = host_budget(total_bytes(need_of(streamed(GetParam()), 3)));
  HostImages images(3, [&] { return create_cpu_device({.host_memory = budget}); });
  std::latch loaded(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&] {
      const auto device = create_cpu_device({.host_memory = budget});
      const auto pipeline = open_pipeline(ModelFolder::open(tiny_shapes()));
      const auto compute = device->create_stream("compute");
      const auto copy = device->create_stream("copy");
      OffloadOptions options = streamed(GetParam());
      options.images = &images;
      PartHost host(*device, *compute, *copy, pipeline->parts(), options);
      StageRunner runner(*device, *compute, host, pipeline->parts());
      loaded.arrive_and_wait();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget->use().peak_bytes, total_bytes(need_of(streamed(GetParam()), 3)));
}

class HostImagesOfParts : public ::testing::Test {
 protected:
  std::vector<HostImages::Part> parts() const {
    std::vector<HostImages::Part> parts;
    for (std::size_t part = 0; part < pipeline_->parts().size(); ++part)
      parts.push_back({pipeline_->parts()[part].plan, plans_[part].bindings});
    return parts;
  }
  std::unique_ptr<Pipeline> pipeline_ = open_pipeline(ModelFolder::open(tiny_shapes()));
  std::vector<HostWeightPlan> plans_ =
      plan_host_weights(pipeline_->parts(), streamed(HostBackingChoice::private_pages));
};

TEST_F(HostImagesOfParts, AreTheSameForRanksOfTheSamePlan) {
  std::atomic<int> devices = 0;
  HostImages images(4, [&] {
    ++devices;
    return create_cpu_device();
  });
  std::vector<std::vector<HostImages::Images>> seen(4);
  std::atomic<std::size_t> missing = 0;
  std::atomic<std::size_t> ranks = 0;
  std::vector<std::thread> threads;
  for (auto& mine : seen)
    threads.emplace_back([&] {
      mine = images.load(parts(), [&](const HostImages::Missing& need) {
        missing += need.weight_bytes;
        ranks += need.ranks;
      });
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : seen) EXPECT_EQ(mine, seen[0]);
  EXPECT_EQ(devices, 1);
  EXPECT_EQ(missing, images.size_bytes());
  EXPECT_EQ(ranks, 4U);
}

/// Ranks of a tensor-parallel group hold other parts of the same tensors, and share what they hold whole.
TEST_F(HostImagesOfParts, AreASetForEachSlice) {
  const OffloadPlan& whole = pipeline_->parts()[0].plan;
  const auto sliced = [&](std::int64_t rank) {
    OffloadPlan plan = whole;
    ParameterGroup& group = plan.stacks[0].units[0].groups[0];
    group = group.sliced([&](const TensorSpec& tensor) {
      return TensorSlice(tensor, {ShardRule::Cut::rows, {tensor.shape[0]}}, {2, rank});
    });
    return plan;
  };
  const OffloadPlan first = sliced(0);
  const OffloadPlan second = sliced(1);
  HostImages images(2, [] { return create_cpu_device(); });
  const auto nothing = [](const HostImages::Missing&) {};
  const auto a = images.load({{first, plans_[0].bindings}, {pipeline_->parts()[1].plan, plans_[1].bindings}}, nothing);
  const auto b = images.load({{second, plans_[0].bindings}, {pipeline_->parts()[1].plan, plans_[1].bindings}}, nothing);
  EXPECT_NE(a[0], b[0]);
  EXPECT_EQ(a[1], b[1]);
  const std::unique_ptr<Device> device = create_cpu_device();
  const PinnedImages reference(*device, whole, plans_[0].bindings);
  const std::size_t half = first.stacks[0].units[0].groups[0].runtime.size_bytes();
  const std::byte* both = reference.unit({0, 0}).data();
  EXPECT_TRUE(std::equal(both, both + half, a[0]->unit({0, 0}).data()));
  EXPECT_TRUE(std::equal(both + half, both + 2 * half, b[0]->unit({0, 0}).data()));
}

TEST_F(HostImagesOfParts, AFailureIsEverybodysWithItsReason) {
  HostImages images(3, []() -> std::unique_ptr<Device> { fail(ErrorCode::unavailable, "no device for the images"); });
  std::atomic<int> prepared = 0;
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&] {
      expect_error(ErrorCode::unavailable, {"no device for the images"},
                   [&] { images.load(parts(), [&](const HostImages::Missing&) { ++prepared; }); });
      ++refused;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(prepared, 1);
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(images.size_bytes(), 0U);
}

TEST_F(HostImagesOfParts, BackingIsWhatTheFirstRankChose) {
  HostImages images(2, [] { return create_cpu_device(); });
  EXPECT_EQ(images.backing([] { return HostBackingChoice::private_pages; }), HostBackingChoice::private_pages);
  EXPECT_EQ(images.backing([] { return HostBackingChoice::automatic; }), HostBackingChoice::private_pages);
}

}  // namespace
}  // namespace lamina::test
