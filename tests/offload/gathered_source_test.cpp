// A part of a checkpoint that needs every adapter, held by several ranks together.

#include "offload/gathered_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "base/bytes.h"
#include "base/expect_error.h"
#include "comm/local_ranks.h"
#include "offload/active_part.h"
#include "offload/mapped_source.h"
#include "offload/pinned_source.h"
#include "offload/stored_part.h"
#include "offload/stored_toy.h"
#include "offload/toy_part.h"
#include "offload/unit_layout.h"

namespace lamina::test {
namespace {

using lamina::testing::expect_error;
using ::testing::Each;
using ::testing::Eq;

std::size_t image_bytes(const OffloadPlan& plan, std::size_t unit) {
  return UnitLayout::of(plan.stacks[0].units[unit].groups).size_bytes;
}

TEST(ShardLayout, CoversTheImageOnce) {
  for (const std::size_t image : {0, 256, 512, 5120, 5376, 1 << 20})
    for (const std::size_t ranks : {1, 2, 3, 4, 8})
      for (const std::size_t chunks : {1, 2, 5}) {
        const ShardLayout layout = ShardLayout::of(image, {ranks, chunks});
        std::size_t next = 0;
        for (std::size_t chunk = 0; chunk < chunks; ++chunk)
          for (std::size_t rank = 0; rank < ranks; ++rank, next += layout.piece_bytes)
            ASSERT_EQ(layout.piece_offset(chunk, rank), next);
        EXPECT_EQ(layout.padded_bytes(), next);
        EXPECT_EQ(layout.shard_bytes() * ranks, next);
        EXPECT_EQ(layout.piece_bytes % 256, 0U);
        EXPECT_GE(next, image);
        EXPECT_LT(next, image + 256 * ranks * chunks);
      }
}

TEST(ShardLayout, OfOneRankIsTheImageAsItIs) {
  EXPECT_EQ(device_bytes(768, {1, 5}), 768U);
  EXPECT_EQ(device_bytes(768, {2, 1}), 1024U);
  EXPECT_EQ(device_bytes(768, {2, 2}), 1024U);
  EXPECT_EQ(device_bytes(768, {3, 5}), 3840U);
}

class GatheredImages : public ::testing::TestWithParam<std::tuple<std::size_t, std::size_t, ShardPlace>> {
 protected:
  std::size_t ranks() const { return std::get<0>(GetParam()); }
  std::size_t chunks() const { return std::get<1>(GetParam()); }
  ShardPlace place() const { return std::get<2>(GetParam()); }

  GatheredSource make_source(LocalRank& mine, const Stored& stored) const {
    return {*mine.device, *mine.communicator, stored.plan(), stored.bindings(), {chunks(), place()}};
  }

  /// The images as one rank would hold them all, units first, then that of the weights outside.
  static std::vector<std::vector<std::byte>> whole_images(const Stored& stored) {
    TestDevice test;
    PinnedSource pinned(*test.device, stored.plan(), stored.bindings());
    std::vector<std::vector<std::byte>> images;
    const auto take = [&](std::size_t size, const auto& fetch) {
      const DeviceBuffer target = test.device->allocate(size, "target");
      fetch(target.data());
      test.copy->synchronize();
      images.emplace_back(target.data(), target.data() + size);
    };
    for (std::size_t unit = 0; unit < Stored::kUnits; ++unit)
      take(image_bytes(stored.plan(), unit), [&](std::byte* to) { pinned.fetch_async({0, unit}, to, *test.copy); });
    take(UnitLayout::of(stored.plan().outside).size_bytes,
         [&](std::byte* to) { pinned.fetch_outside_async(to, *test.copy); });
    return images;
  }
};

INSTANTIATE_TEST_SUITE_P(Shardings, GatheredImages,
                         ::testing::Combine(::testing::Values(2, 3, 4), ::testing::Values(1, 2, 5),
                                            ::testing::Values(ShardPlace::host, ShardPlace::device)));

TEST_P(GatheredImages, AreThoseOfOneRankOnEveryRank) {
  const Stored stored;
  const std::vector<std::vector<std::byte>> expected = whole_images(stored);
  const auto errors = run_ranks(ranks(), [&](LocalRank& mine) {
    const std::unique_ptr<Stream> copy = mine.device->create_stream("copy");
    GatheredSource source = make_source(mine, stored);
    for (std::size_t image = 0; image <= Stored::kUnits; ++image) {
      const DeviceBuffer target =
          mine.device->allocate(device_bytes(expected[image].size(), {ranks(), chunks()}), "target");
      if (image < Stored::kUnits)
        source.fetch_async({0, image}, target.data(), *copy);
      else
        source.fetch_outside_async(target.data(), *copy);
      source.completion()->last().synchronize();
      const std::vector<std::byte> seen(target.data(), target.data() + expected[image].size());
      ASSERT_EQ(seen, expected[image]) << "image " << image << " on rank " << mine.rank;
    }
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST_P(GatheredImages, AreHeldOnceByAllRanksTogether) {
  const Stored stored;
  std::size_t images = UnitLayout::of(stored.plan().outside).size_bytes;
  for (std::size_t unit = 0; unit < Stored::kUnits; ++unit) images += image_bytes(stored.plan(), unit);
  const std::size_t most_padding = (Stored::kUnits + 1) * 256 * ranks() * chunks();
  run_ranks(ranks(), [&](LocalRank& mine) {
    GatheredSource source = make_source(mine, stored);
    const std::size_t shards = GatheredSource::shard_bytes(stored.plan(), {ranks(), chunks()});
    EXPECT_GE(shards * ranks(), images);
    EXPECT_LT(shards * ranks(), images + most_padding);
    const bool on_host = place() == ShardPlace::host;
    EXPECT_EQ(source.host_bytes(), on_host ? shards : 0);
    EXPECT_EQ(mine.device->pinned_bytes(), source.host_bytes());
    EXPECT_EQ(mine.device->memory().use().used_bytes, on_host ? 0 : shards);
  });
}

/// Parameters of a part's plan.
std::vector<std::unique_ptr<Parameter>> make_parameters(const OffloadPlan& plan) {
  std::vector<std::unique_ptr<Parameter>> parameters;
  const auto add = [&](const std::vector<ParameterGroup>& groups) {
    for (const ParameterGroup& group : groups) parameters.push_back(std::make_unique<Parameter>(group.runtime));
  };
  for (const StreamUnit& unit : plan.stacks[0].units) add(unit.groups);
  add(plan.outside);
  return parameters;
}

/// The bytes of a unit's parameters while it is leased, and behind all visits those of the weights outside: what a part
/// shows in three passes.
std::vector<std::vector<std::byte>> show_part(Device& device, UnitSource& source, const OffloadPlan& plan,
                                              const ResidencyOptions& residency) {
  const std::unique_ptr<Stream> compute = device.create_stream("compute");
  const std::unique_ptr<Stream> copy = device.create_stream("copy");
  const std::vector<std::unique_ptr<Parameter>> owned = make_parameters(plan);
  std::vector<Parameter*> parameters;
  for (const auto& parameter : owned) parameters.push_back(parameter.get());
  ActivePart part({device, *compute, *copy, plan, parameters, source, residency, true});
  std::vector<std::vector<std::byte>> seen;
  const auto show = [&](const std::vector<ParameterGroup>& groups) {
    compute->synchronize();
    for (const ParameterGroup& group : groups)
      for (const Parameter* parameter : parameters)
        if (parameter->name() == group.runtime.name)
          seen.emplace_back(parameter->view().data(), parameter->view().data() + parameter->view().span_bytes());
  };
  for (int pass = 0; pass < 3; ++pass) {
    part.stream().begin_pass(0);
    if (pass < 2) part.stream().announce_next(0);
    for (std::size_t unit = 0; unit < plan.stacks[0].units.size(); ++unit) {
      UnitLease lease = part.stream().enter(unit);
      show(plan.stacks[0].units[unit].groups);
      lease.leave();
    }
    part.stream().end_pass();
  }
  part.stream().take_statistics();
  show(plan.outside);
  return seen;
}

TEST_P(GatheredImages, MakeUpAPartWithAndWithoutResidents) {
  const Stored stored;
  for (const ResidencyOptions& residency :
       {ResidencyOptions{true, 2, 0}, ResidencyOptions{true, 3, 0},
        ResidencyOptions{true, 1, 2, ResidentPolicy::spread}, ResidencyOptions{true, 2, 1},
        ResidencyOptions{true, 2, Stored::kUnits}, ResidencyOptions{false}}) {
    TestDevice single;
    PinnedSource pinned(*single.device, stored.plan(), stored.bindings());
    const auto expected = show_part(*single.device, pinned, stored.plan(), residency);
    ASSERT_EQ(expected.size(), 3 * 4 * Stored::kUnits + 1);
    const auto errors = run_ranks(ranks(), [&](LocalRank& mine) {
      GatheredSource source = make_source(mine, stored);
      ResidencyOptions gathered = residency;
      gathered.sharding = {ranks(), chunks()};
      gathered.shards = place();
      EXPECT_EQ(show_part(*mine.device, source, stored.plan(), gathered), expected);
    });
    EXPECT_THAT(errors, Each(Eq(std::nullopt)));
  }
}

/// Loading ranks with shards on the device, the second of which is out of luck; what each ended with.
std::vector<std::optional<Error>> load_to_devices(const Stored& stored, const CpuDeviceOptions& second,
                                                  const std::function<void(LocalRank&)>& see = {}) {
  return run_ranks(
      2,
      [&](LocalRank& mine) {
        try {
          const GatheredSource source(*mine.device, *mine.communicator, stored.plan(), stored.bindings(),
                                      {2, ShardPlace::device});
          if (see) see(mine);
        } catch (const Error&) {
          EXPECT_EQ(mine.device->memory().use().used_bytes, 0U);
          EXPECT_EQ(mine.device->pinned_bytes(), 0U);
          throw;
        }
      },
      std::nullopt, [&](std::size_t rank) { return rank == 1 ? second : CpuDeviceOptions{}; });
}

TEST(ShardsOnTheDevice, AreLoadedThroughStagingOfABoundedSize) {
  const Stored stored;
  const auto budget = std::make_shared<HostMemoryBudget>(std::nullopt, "/no/such/root");
  const auto errors = load_to_devices(stored, {.host_memory = budget},
                                      [&](LocalRank& mine) { EXPECT_EQ(mine.device->pinned_bytes(), 0U); });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
  const std::size_t staging = GatheredSource::loading_bytes(stored.plan(), {2, 2});
  EXPECT_EQ(budget->use().peak_bytes, staging);
  std::size_t largest = 0;
  for (std::size_t unit = 0; unit < Stored::kUnits; ++unit)
    largest = std::max(largest, ShardLayout::of(image_bytes(stored.plan(), unit), {2, 2}).piece_bytes);
  EXPECT_EQ(staging, 2 * largest);
}

/// Two buffers for pieces that are larger, so that one piece comes in several copies.
TEST(ShardsOnTheDevice, ComeWholeThroughBuffersSmallerThanAPiece) {
  const ToyPart::Sizes sizes{20 * kMiB, 512, 9 * kMiB + 512};
  const StoredToy toy({sizes});
  EXPECT_EQ(GatheredSource::loading_bytes(toy.plan(), {2, 1}), 2 * MappedSource::kStagingBytes);
  const auto errors = run_ranks(2, [&](LocalRank& mine) {
    GatheredToy streamed(mine, toy, 1, 2 * padded(sizes[0], 2, 1), {}, false, ShardPlace::device);
    traverse(streamed.stream, streamed.part, *streamed.compute, sizes.size(), 2);
    streamed.stream.take_statistics();
    EXPECT_EQ(streamed.part.wrong_reads(), 0U);
  });
  EXPECT_THAT(errors, Each(Eq(std::nullopt)));
}

TEST(ShardsOnTheDevice, AnyAllocationThatFailsLeavesNothingBehind) {
  const Stored stored;
  for (std::uint64_t k = 1; k <= Stored::kUnits + 1; ++k) {
    SCOPED_TRACE("allocation " + std::to_string(k));
    const auto errors = load_to_devices(stored, {.faults = {.fail_allocation = k}});
    EXPECT_FALSE(errors[0]);
    ASSERT_TRUE(errors[1]);
    EXPECT_EQ(errors[1]->code(), ErrorCode::out_of_device_memory);
  }
  EXPECT_THAT(load_to_devices(stored, {.faults = {.fail_allocation = Stored::kUnits + 2}}), Each(Eq(std::nullopt)));
}

TEST(ShardsOnTheDevice, CountAgainstItsLimit) {
  const Stored stored;
  const std::size_t shards = GatheredSource::shard_bytes(stored.plan(), {2, 2});
  EXPECT_THAT(load_to_devices(stored, {.memory_limit_bytes = shards}), Each(Eq(std::nullopt)));
  const auto errors = load_to_devices(stored, {.memory_limit_bytes = shards - 1});
  ASSERT_TRUE(errors[1]);
  expect_error(ErrorCode::out_of_device_memory, {"asked for 'shards'", "allowed"}, [&] { throw *errors[1]; });
}

TEST(ShardsOnTheDevice, AFileCutBeforeItIsReadFailsTheLoading) {
  const Stored stored;
  std::filesystem::resize_file(stored.file(), std::filesystem::file_size(stored.file()) / 2);
  for (const std::optional<Error>& error : load_to_devices(stored, {})) {
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message(), ::testing::HasSubstr("toy.safetensors"));
  }
}

TEST(ShardsOnTheDevice, AreMemoryOfThePartWhereverItIs) {
  const Stored stored;
  const PartMemory on_host = plan_memory(stored.plan(), {true, 2, 1, ResidentPolicy::leading, {3, 2}});
  const PartMemory on_device =
      plan_memory(stored.plan(), {true, 2, 1, ResidentPolicy::leading, {3, 2}, ShardPlace::device});
  EXPECT_EQ(on_host.shard_bytes, 0U);
  EXPECT_EQ(on_device.shard_bytes, GatheredSource::shard_bytes(stored.plan(), {3, 2}));
  EXPECT_EQ(on_device.total_bytes(), on_host.total_bytes() + on_device.shard_bytes);
}

}  // namespace
}  // namespace lamina::test
