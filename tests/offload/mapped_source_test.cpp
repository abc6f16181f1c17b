#include "offload/mapped_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mutex>
#include <random>
#include <set>

#include "base/error.h"
#include "offload/block_stream.h"
#include "offload/pinned_source.h"
#include "offload/stored_part.h"
#include "offload/toy_part.h"
#include "offload/unit_layout.h"

namespace lamina::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::size_t kStaging = 1024;

std::size_t image_bytes(const OffloadPlan& plan, std::size_t unit) {
  return UnitLayout::of(plan.stacks[0].units[unit].groups).size_bytes;
}

/// Fetches every unit twice and the outside image, into one buffer, and returns all bytes.
std::vector<std::byte> fetch_all(TestDevice& test, const OffloadPlan& plan, UnitSource& source) {
  std::size_t size = UnitLayout::of(plan.outside).size_bytes;
  for (std::size_t unit = 0; unit < Stored::kUnits; ++unit) size += 2 * image_bytes(plan, unit);
  const DeviceBuffer target = test.device->allocate(size, "target");
  std::byte* place = target.data();
  for (int round = 0; round < 2; ++round)
    for (std::size_t unit = 0; unit < Stored::kUnits; ++unit) {
      source.fetch_async({0, unit}, place, *test.copy);
      place += image_bytes(plan, unit);
    }
  source.fetch_outside_async(place, *test.copy);
  test.copy->synchronize();
  source.check();
  return {target.data(), target.data() + size};
}

/// One parameter over each unit's image.
struct WholeUnits {
  explicit WholeUnits(const OffloadPlan& plan) {
    for (std::size_t unit = 0; unit < Stored::kUnits; ++unit) {
      const std::size_t size = image_bytes(plan, unit);
      parameters.push_back(std::make_unique<Parameter>(
          TensorSpec{"unit" + std::to_string(unit), DType::u8, {static_cast<std::int64_t>(size)}}));
      bindings.front().push_back({{parameters.back().get()}, {0}, size, size, nullptr});
      largest = std::max(largest, size);
    }
  }

  std::vector<std::unique_ptr<Parameter>> parameters;
  std::vector<std::vector<UnitBinding>> bindings{1};
  std::size_t largest = 0;
};

/// Streams all units for `passes` passes and returns what compute saw of each visit.
std::vector<std::vector<std::byte>> stream_all(TestDevice& test, const OffloadPlan& plan, UnitSource& source,
                                               std::size_t passes) {
  const WholeUnits units(plan);
  std::vector<std::vector<std::byte>> seen(passes * Stored::kUnits);
  BlockStream stream(*test.device, *test.compute, *test.copy, &source, units.bindings, {2 * units.largest, true});
  for (std::size_t pass = 0; pass < passes; ++pass) {
    stream.begin_pass(0);
    if (pass + 1 < passes) stream.announce_next(0);
    for (std::size_t unit = 0; unit < Stored::kUnits; ++unit) {
      UnitLease lease = stream.enter(unit);
      const ConstTensorView view = units.parameters[unit]->view();
      std::vector<std::byte>& copy = seen[pass * Stored::kUnits + unit];
      copy.resize(view.span_bytes());
      test.compute->copy_to_host_async(copy.data(), view.data(), copy.size(), "see unit");
      lease.leave();
    }
    stream.end_pass();
  }
  stream.take_statistics();
  return seen;
}

TEST(MappedSource, ImagesAreThoseOfPinnedImagesByteForByte) {
  const Stored stored;
  TestDevice test;
  PinnedSource pinned(*test.device, stored.plan(), stored.bindings());
  const std::vector<std::byte> expected = fetch_all(test, stored.plan(), pinned);
  for (const std::size_t staging : {std::size_t{256}, kStaging, MappedSource::kStagingBytes}) {
    MappedSource mapped(*test.device, stored.plan(), stored.bindings(), staging);
    EXPECT_EQ(fetch_all(test, stored.plan(), mapped), expected) << staging;
    EXPECT_LE(mapped.host_bytes(), 2 * staging);
  }
}

TEST(MappedSource, DelaysOfAnyStreamChangeNoByte) {
  const Stored stored;
  TestDevice calm;
  PinnedSource pinned(*calm.device, stored.plan(), stored.bindings());
  const auto expected = stream_all(calm, stored.plan(), pinned, 3);
  for (const std::string_view slow : {"packer", "copy", "compute"}) {
    auto random = std::make_shared<std::mt19937>(7);
    auto mutex = std::make_shared<std::mutex>();
    TestDevice test({.faults = {.delay = [=](std::string_view stream, std::string_view) {
                       const std::lock_guard lock(*mutex);
                       return std::chrono::microseconds(stream == slow ? (*random)() % 600 : 0);
                     }}});
    MappedSource mapped(*test.device, stored.plan(), stored.bindings(), kStaging);
    EXPECT_EQ(stream_all(test, stored.plan(), mapped, 3), expected) << slow;
  }
}

TEST(MappedSource, TheLaunchingThreadNeitherPacksNorWaits) {
  const Stored stored;
  std::mutex gate;
  TestDevice test({.faults = {.delay = [&](std::string_view stream, std::string_view) {
                     if (stream == "packer") const std::lock_guard lock(gate);
                     return std::chrono::nanoseconds(0);
                   }}});
  MappedSource mapped(*test.device, stored.plan(), stored.bindings(), kStaging);
  const DeviceBuffer target = test.device->allocate(image_bytes(stored.plan(), 0), "target");
  std::unique_lock closed(gate);
  for (int i = 0; i < 10; ++i) mapped.fetch_async({0, 0}, target.data(), *test.copy);  // returns: nothing is packed
  EXPECT_EQ(std::to_integer<int>(target.data()[0]), 0xFF);
  closed.unlock();
  test.copy->synchronize();
  EXPECT_NO_THROW(mapped.check());
}

TEST(MappedSource, StallIsAttributedToPackingOnTheVirtualClock) {
  using std::chrono::microseconds;
  const Stored stored;
  const WholeUnits units(stored.plan());
  TestDevice test({.virtual_cost = [](std::string_view, std::string_view work, std::size_t) {
    return microseconds(work == "pack weights" ? 100 : work == "fetch unit" ? 10 : 0);
  }});
  MappedSource mapped(*test.device, stored.plan(), stored.bindings());  // one piece a unit
  BlockStream stream(*test.device, *test.compute, *test.copy, &mapped, units.bindings, {units.largest, false});
  stream.begin_pass(0);
  for (std::size_t unit = 0; unit < Stored::kUnits; ++unit) stream.enter(unit).leave();
  stream.end_pass();
  const StreamStatistics statistics = stream.take_statistics();
  for (std::size_t unit = 0; unit < Stored::kUnits; ++unit) {
    // Behind the first unit, ten microseconds of the packing go by while the copy before is on the link.
    const microseconds hidden(unit == 0 ? 0 : 10);
    const UnitStatistics& seen = statistics.units[0][unit];
    EXPECT_EQ(seen.packing, microseconds(100));
    EXPECT_EQ(seen.stall, microseconds(110) - hidden);
    EXPECT_EQ(seen.packing_stall, microseconds(100) - hidden);
  }
}

TEST(MappedSourceMutations, AnyWaitLeftOutIsFound) {
  const Stored stored;
  const auto run = [&](TestDevice& test) {
    MappedSource mapped(*test.device, stored.plan(), stored.bindings(), kStaging);
    stream_all(test, stored.plan(), mapped, 2);
  };
  std::set<std::pair<std::string, std::string>> waits;
  {
    TestDevice test({.faults = {.drop_wait = [&](std::string_view stream, std::string_view event) {
                       waits.emplace(stream, event);
                       return false;
                     }}});
    ASSERT_NO_THROW(run(test));
  }
  waits.erase({"host", "free"});  // reading times is no matter of memory order
  EXPECT_THAT(waits, ::testing::UnorderedElementsAre(std::pair<std::string, std::string>{"compute", "ready"},
                                                     std::pair<std::string, std::string>{"copy", "free"},
                                                     std::pair<std::string, std::string>{"copy", "packed"},
                                                     std::pair<std::string, std::string>{"packer", "staging copied"}));
  for (const auto& [stream, event] : waits) {
    TestDevice test({.faults = {.drop_wait = [&](std::string_view at, std::string_view name) {
                       return at == stream && name == event;
                     }}});
    EXPECT_THAT([&] { run(test); }, ThrowsMessage<Error>(HasSubstr("missing wait")))
        << stream << " does not wait for " << event;
  }
}

TEST(MappedSource, AFileCutBetweenFetchesFailsTheSourceForGood) {
  const Stored stored;
  TestDevice test;
  MappedSource mapped(*test.device, stored.plan(), stored.bindings(), kStaging);
  fetch_all(test, stored.plan(), mapped);
  ASSERT_EQ(::truncate(stored.file().c_str(), 2000), 0);
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_THAT([&] { fetch_all(test, stored.plan(), mapped); },
                ThrowsMessage<Error>(::testing::AllOf(HasSubstr(stored.file().string()), HasSubstr("while in use"))));
}

TEST(MappedSource, ARefusedCopyLeavesTheSourceUsable) {
  const Stored stored;
  for (const std::uint64_t k : {1, 2, 3, 9}) {
    TestDevice test;
    MappedSource mapped(*test.device, stored.plan(), stored.bindings(), kStaging);
    set_cpu_faults(*test.device, {.fail_copy = k});
    EXPECT_THROW(fetch_all(test, stored.plan(), mapped), Error);
    test.copy->synchronize();
    PinnedSource pinned(*test.device, stored.plan(), stored.bindings());
    EXPECT_EQ(fetch_all(test, stored.plan(), mapped), fetch_all(test, stored.plan(), pinned));
  }
}

TEST(MappedSource, ThePlanMustBindEveryTensor) {
  const Stored stored;
  TestDevice test;
  std::vector<WeightBinding> bindings = stored.bindings();
  bindings.pop_back();
  EXPECT_THAT([&] { MappedSource(*test.device, stored.plan(), bindings); },
              ThrowsMessage<Error>(HasSubstr("is not bound")));
}

}  // namespace
}  // namespace lamina::test
