// Requests that fail by themselves or are cancelled: each ends with its reason, and all others end as they do alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "base/json.h"
#include "engine/planted_pipeline.h"
#include "engine/ranked_fixture.h"

namespace lamina::test {
namespace {

using ::testing::HasSubstr;

/// The one of `requests` that a test has fail, or cancels.
constexpr std::size_t kVictim = 1;
constexpr std::uint64_t kVictimSeed = 7;

/// Places of `requests` in `ragged_requests`.
constexpr std::array<std::size_t, 3> kPlaces{0, 2, 4};

std::vector<GenerateRequest> requests() {
  std::vector<GenerateRequest> some;
  for (const std::size_t place : kPlaces) some.push_back(ragged_requests()[place]);
  return some;
}

struct GroupMode {
  const char* name;
  std::size_t replicas;
  std::size_t chunks;  ///< 0: rank-local
  std::size_t samples;
};

void PrintTo(const GroupMode& mode, std::ostream* out) {
  *out << mode.name;
}

RankedSetup setup_of(const GroupMode& mode) {
  RankedSetup setup =
      tiny_ranks(mode.replicas, {.stream = true, .ring_slots = 2, .poison_released = true}, mode.chunks);
  setup.samples_per_replica = mode.samples;
  return setup;
}

RankedSetup with_plant(RankedSetup setup, Plant plant) {
  setup.open_pipeline = [open = std::move(setup.open_pipeline), plant = std::move(plant)](const ModelGroups& groups) {
    return std::make_unique<PlantedPipeline>(open(groups), plant);
  };
  return setup;
}

/// Throws for the victim at one moment of one stage; of starts, from the second on, which is where it is to run.
Plant failing(Moment moment, const std::string& stage, ErrorCode code) {
  return [=](const GenerateRequest& request, Moment now, const std::string& name) {
    if (request.seed != kVictimSeed || now != moment || name != stage) return;
    thread_local int starts = 0;  // of a rank, which is a thread
    if (moment == Moment::start && ++starts == 1) return;
    fail(code, "planted: a bad value");
  };
}

void expect_others_same(const RankedRun& run, const std::vector<std::size_t>& victims) {
  for (const RankReport& rank : run.ranks) EXPECT_FALSE(rank.fault) << rank.fault->failure.message;
  for (std::size_t i = 0; i < run.outcomes.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    if (std::ranges::find(victims, i) == victims.end()) expect_same(run.outcomes[i], lone_results()[kPlaces[i]]);
  }
}

void expect_ended(const RankedOutcome& outcome, ErrorCode code, const std::string& part) {
  EXPECT_FALSE(outcome.result);
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->code, code);
  EXPECT_THAT(outcome.failure->message, HasSubstr(part));
}

class SamplesOfRanks : public ::testing::TestWithParam<GroupMode> {};

INSTANTIATE_TEST_SUITE_P(TinyShapes, SamplesOfRanks,
                         ::testing::Values(GroupMode{"dp1_cobatched", 1, 0, 3}, GroupMode{"dp2_gather", 2, 1, 1},
                                           GroupMode{"dp2_gather_cobatched", 2, 2, 2}, GroupMode{"dp2_local", 2, 0, 1}),
                         [](const auto& mode) { return mode.param.name; });

TEST_P(SamplesOfRanks, ABadValueEndsItsRequestAlone) {
  const std::vector<std::pair<Moment, std::string>> moments{
      {Moment::start, ""},         {Moment::upload, "encode prompt"}, {Moment::collect, "encode prompt"},
      {Moment::upload, "denoise"}, {Moment::collect, "decode"},       {Moment::result, ""}};
  for (const auto& [moment, stage] : moments) {
    SCOPED_TRACE(::testing::Message() << "moment " << int(moment) << " of stage '" << stage << "'");
    const RankedRun run =
        run_on_ranks(with_plant(setup_of(GetParam()), failing(moment, stage, ErrorCode::corrupt)), requests());
    expect_ended(run.outcomes[kVictim], ErrorCode::corrupt, "planted: a bad value");
    expect_others_same(run, {kVictim});
  }
}

/// A group ends with the first reason, whatever was its matter.
TEST_P(SamplesOfRanks, AFaultOfTheDeviceIsNoMatterOfOneSample) {
  for (const ErrorCode code : {ErrorCode::device, ErrorCode::internal}) {
    const RankedRun run =
        run_on_ranks(with_plant(setup_of(GetParam()), failing(Moment::upload, "denoise", code)), requests());
    const auto failed = std::ranges::find_if(run.ranks, [](const RankReport& rank) { return rank.fault.has_value(); });
    ASSERT_NE(failed, run.ranks.end());
    EXPECT_EQ(failed->fault->failure.code, code);
    expect_ended(run.outcomes[kVictim], ErrorCode::device, "planted: a bad value");
  }
}

TEST_P(SamplesOfRanks, AllButOneMayFail) {
  const Plant plant = [](const GenerateRequest& request, Moment now, const std::string& stage) {
    if (request.seed != kVictimSeed && now == Moment::upload && stage == "denoise")
      fail(ErrorCode::invalid_argument, "planted: a bad value");
  };
  const RankedRun run = run_on_ranks(with_plant(setup_of(GetParam()), plant), requests());
  expect_others_same(run, {0, 2});
  for (const std::size_t victim : {0, 2})
    expect_ended(run.outcomes[victim], ErrorCode::invalid_argument, "planted: a bad value");
}

/// True for the victims from the time on when that was asked `rounds` times of the request.
std::function<bool(std::size_t)> cancelling(const std::vector<std::size_t>& victims, std::size_t rounds) {
  const auto asked = std::make_shared<std::array<std::atomic<std::size_t>, kPlaces.size()>>();
  return [=](std::size_t request) {
    return (*asked)[request]++ >= rounds && std::ranges::find(victims, request) != victims.end();
  };
}

/// Cancelled ones have no result, others that of a lone run; the number of cancelled ones.
std::size_t expect_cancelled_or_same(const RankedRun& run) {
  std::vector<std::size_t> cancelled;
  for (std::size_t i = 0; i < run.outcomes.size(); ++i) {
    if (!run.outcomes[i].failure) continue;
    cancelled.push_back(i);
    expect_ended(run.outcomes[i], ErrorCode::cancelled, "cancelled");
  }
  expect_others_same(run, cancelled);
  return cancelled.size();
}

TEST_P(SamplesOfRanks, ACancelledRequestEndsAloneInAnyRound) {
  for (const std::size_t rounds : {0, 1, 2, 4, 7}) {
    SCOPED_TRACE("cancelled in round " + std::to_string(rounds));
    const RankedRun run =
        run_on_ranks(setup_of(GetParam()), requests(), {.passed = {}, .is_cancelled = cancelling({kVictim}, rounds)});
    const std::size_t cancelled = expect_cancelled_or_same(run);
    if (rounds <= 2) {  // it has begun at most
      EXPECT_EQ(cancelled, 1U);
    }
  }
}

TEST_P(SamplesOfRanks, AllRequestsMayBeCancelledInAnyRound) {
  for (const std::size_t rounds : {0, 3, 6, 9}) {
    SCOPED_TRACE("cancelled in round " + std::to_string(rounds));
    const RankedRun run =
        run_on_ranks(setup_of(GetParam()), requests(), {.passed = {}, .is_cancelled = cancelling({0, 1, 2}, rounds)});
    const std::size_t cancelled = expect_cancelled_or_same(run);
    if (rounds == 0) {
      EXPECT_EQ(cancelled, run.outcomes.size());
      for (const RankReport& rank : run.ranks) EXPECT_EQ(rank.totals.passes, 0U);
    }
  }
}

TEST(RankedSamples, OneFailsWhileOneIsCancelledAndOneIsRefused) {
  std::vector<GenerateRequest> requests = test::requests();
  requests[2].height = 33;
  const RankedRun run =
      run_on_ranks(with_plant(setup_of({"", 2, 1, 2}), failing(Moment::collect, "encode prompt", ErrorCode::not_found)),
                   requests, {.passed = {}, .is_cancelled = [](std::size_t request) { return request == 0; }});
  expect_ended(run.outcomes[kVictim], ErrorCode::not_found, "planted: a bad value");
  const Json report = parse_json(report_json(run), "report");
  EXPECT_EQ(report.at("requests").at(kVictim).at("code"), "not_found");
  EXPECT_EQ(report.at("requests").at(kVictim).at("message"), "planted: a bad value");
  expect_ended(run.outcomes[0], ErrorCode::cancelled, "cancelled");
  expect_ended(run.outcomes[2], ErrorCode::invalid_argument, "33");
  expect_others_same(run, {kVictim, 0, 2});
}

/// What is kept of every step goes to memory that a failed sample may not have.
TEST(RankedSamples, AFailedSampleThatKeepsTensorsRunsOnWithoutThem) {
  std::vector<GenerateRequest> requests = test::requests();
  requests[kVictim].keep_tensors = true;
  const RankedRun run = run_on_ranks(
      with_plant(setup_of({"", 1, 0, 2}), failing(Moment::upload, "denoise", ErrorCode::corrupt)), requests);
  expect_ended(run.outcomes[kVictim], ErrorCode::corrupt, "planted: a bad value");
  expect_others_same(run, {kVictim});
}

}  // namespace
}  // namespace lamina::test
