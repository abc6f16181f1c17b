// Before ranks work: groups are formed alike everywhere, and what they were started with is compared.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "base/expect_error.h"
#include "engine/lockstep/first_fault.h"
#include "engine/ranked_fixture.h"
#include "engine/ranks/rank_groups.h"
#include "engine/ranks/run_facts.h"

namespace lamina::test {
namespace {

using lamina::testing::expect_error;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RankFaults, TravelAsTheReasonForWhichGroupsEnd) {
  const Fault fault{3, {ErrorCode::out_of_device_memory, "rank 7: no room"}};
  const Fault told = as_fault(as_reason(fault), 1);
  EXPECT_EQ(told, fault);
  EXPECT_EQ(to_string(fault), "rank 3 failed, and with it its group: rank 7: no room");
}

TEST(RankFaults, AnErrorThatStatesNoneIsTheRanksOwn) {
  for (const char* message : {"no room", "rank ", "rank x failed, and with it its group: y", "rank 2 went away"}) {
    const Fault own = as_fault(Error(ErrorCode::device, message), 1);
    EXPECT_EQ(own, (Fault{1, {ErrorCode::device, message}}));
  }
}

/// Threads of another process's ranks: forms nothing, and writes down what it is asked for.
class RecordingConnector final : public RankConnector {
 public:
  RecordingConnector(std::size_t world, LocalRanks local, std::vector<std::string>& groups)
      : threads_(connect_threads(world, std::nullopt)), local_(local), groups_(groups) {}

  std::size_t world_size() const noexcept override { return threads_->world_size(); }
  LocalRanks local_ranks() const noexcept override { return local_; }
  void end(const Error&) noexcept override {}
  std::vector<std::unique_ptr<Communicator>> connect_devices(const std::string& name,
                                                             std::span<const std::size_t> ranks) override {
    return keep_local(name, ranks, threads_->connect_devices(name, ranks));
  }
  std::vector<std::unique_ptr<HostExchange>> connect_hosts(const std::string& name,
                                                           std::span<const std::size_t> ranks) override {
    return keep_local(name, ranks, threads_->connect_hosts(name, ranks));
  }

 private:
  template <typename End>
  std::vector<std::unique_ptr<End>> keep_local(const std::string& name, std::span<const std::size_t> ranks,
                                               std::vector<std::unique_ptr<End>> ends) {
    std::string text = name;
    std::vector<std::unique_ptr<End>> kept;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      text += " " + std::to_string(ranks[i]);
      if (local_.contains(ranks[i])) kept.push_back(std::move(ends[i]));
    }
    groups_.push_back(text);
    return kept;
  }

  std::unique_ptr<RankConnector> threads_;
  LocalRanks local_;
  std::vector<std::string>& groups_;
};

TEST(RankGroups, AreFormedInOneOrderByProcessesWithAnyRanks) {
  const Topology topology({.data = 2, .sequence = 2, .tensor = 2});
  for (const LocalRanks local : {LocalRanks{0, 8}, LocalRanks{0, 1}, LocalRanks{3, 2}, LocalRanks{7, 1}}) {
    std::vector<std::string> formed;
    RecordingConnector connector(8, local, formed);
    const auto groups = form_groups(connector, topology, GroupKind::offload);
    EXPECT_THAT(formed, ElementsAre("weights 0 4", "weights 1 5", "weights 2 6", "weights 3 7", "tensor 0 1",
                                    "tensor 2 3", "tensor 4 5", "tensor 6 7", "sequence 0 2", "sequence 1 3",
                                    "sequence 4 6", "sequence 5 7", "rounds 0 1 2 3 4 5 6 7"));
    ASSERT_EQ(groups.size(), 1U);
    EXPECT_EQ(groups[0]->local, local);
    ASSERT_EQ(groups[0]->ends.size(), local.count);
    for (std::size_t i = 0; i < local.count; ++i) {
      const std::size_t rank = local.first + i;
      EXPECT_EQ(groups[0]->ends[i].weights->rank(), rank / 4);
      EXPECT_EQ(groups[0]->ends[i].tensor->rank(), rank % 2);
      EXPECT_EQ(groups[0]->ends[i].sequence->rank(), rank % 4 / 2);
    }
  }
}

TEST(RankGroups, ReplicasThatGatherNothingAreGroupsOfTheirOwn) {
  std::vector<std::string> formed;
  RecordingConnector connector(6, {2, 3}, formed);
  const auto groups = form_groups(connector, Topology({.data = 3, .tensor = 2}), std::nullopt);
  EXPECT_THAT(formed, ElementsAre("tensor 0 1", "tensor 2 3", "tensor 4 5", "rounds 0 1", "rounds 2 3", "rounds 4 5"));
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_TRUE(groups[0]->ends.empty());
  EXPECT_EQ(groups[1]->local, (LocalRanks{2, 2}));
  EXPECT_EQ(groups[2]->local, (LocalRanks{4, 1}));
  EXPECT_EQ(groups[2]->ends[0].weights, nullptr);
  EXPECT_EQ(groups[2]->ends[0].model_groups().sequence, nullptr);
}

TEST(RankGroups, AbortEndsEveryGroupOfTheLocalRanks) {
  const auto connector = connect_threads(8, std::nullopt);
  const auto groups = form_groups(*connector, Topology({.data = 2, .sequence = 2, .tensor = 2}), GroupKind::offload);
  groups[0]->abort(Error(ErrorCode::device, "planted"));
  for (RankEnds& ends : groups[0]->ends) {
    for (Communicator* group : {ends.weights.get(), ends.tensor.get(), ends.sequence.get()})
      expect_error(ErrorCode::device, {"planted"}, [&] { group->check(); });
    expect_error(ErrorCode::device, {"planted"}, [&] { ends.rounds->all_gather({}); });
  }
}

TEST(RankGroups, AWorldOfAnotherSizeIsRefused) {
  const auto connector = connect_threads(3, std::nullopt);
  expect_error(ErrorCode::incompatible, {"3 ranks", "--data-parallel-size 2", "takes 4"},
               [&] { form_groups(*connector, Topology({.data = 2, .tensor = 2}), std::nullopt); });
}

/// What each rank of a group meets when it compares `facts[rank]`.
std::vector<std::string> compare(const std::vector<RunFacts>& facts, const std::vector<std::size_t>& ranks) {
  auto rounds = create_local_exchange("rounds", facts.size());
  std::vector<std::string> met(facts.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < facts.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        agree_on(facts[i], *rounds[i], ranks);
      } catch (const Error& error) {
        met[i] = error.message();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return met;
}

TEST(RunFacts, AMismatchNamesTheRankAndWhatDiffers) {
  const RunFacts usual{{"--dlo-slots", "2"}, {"request 1", "a fox"}};
  EXPECT_THAT(compare({usual, usual, usual}, {0, 1, 2}), ElementsAre("", "", ""));
  const std::string slots = "rank 5 was started otherwise than rank 3: --dlo-slots is 3, not 2; start all alike";
  EXPECT_THAT(compare({usual, usual, {{"--dlo-slots", "3"}, {"request 1", "a fox"}}}, {3, 4, 5}),
              ElementsAre(slots, slots, slots));
  EXPECT_THAT(compare({usual, {{"--dlo-slots", "2"}}}, {0, 1})[0], HasSubstr("request 1 is nothing, not a fox"));
  EXPECT_THAT(compare({{{"--dlo-slots", "2"}}, usual}, {0, 1})[1], HasSubstr("request 1 is a fox, not nothing"));
}

/// Each change of what a run is started with changes its facts.
TEST(RunFacts, TellEveryDifferenceThatWouldPartTheRanks) {
  const std::vector<GenerateRequest> requests{small_request()};
  std::set<RunFacts> seen;
  const auto expect_new = [&](const RankedSetup& setup, const std::vector<GenerateRequest>& of) {
    EXPECT_TRUE(seen.insert(facts_of(setup, of)).second);
  };
  const RankedSetup setup = tiny_ranks(2, {.stream = true}, 1);
  expect_new(setup, requests);
  const auto change_setup = [&](const auto& change) {
    RankedSetup other = setup;
    change(other);
    expect_new(other, requests);
  };
  change_setup([](RankedSetup& other) { other.topology = Topology({.data = 1, .tensor = 2}); });
  change_setup([](RankedSetup& other) { other.topology = Topology({.data = 1, .sequence = 2}); });
  change_setup([](RankedSetup& other) { other.topology = Topology({.use_hsdp = true, .hsdp_shard = 2}); });
  change_setup([](RankedSetup& other) { other.weights.reset(); });
  change_setup([](RankedSetup& other) { other.chunks = 2; });
  change_setup([](RankedSetup& other) { other.shards = ShardPlace::device; });
  change_setup([](RankedSetup& other) { other.samples_per_replica = 2; });
  change_setup([](RankedSetup& other) { other.wave_policy = WavePolicy::strict; });
  change_setup([](RankedSetup& other) { other.model = "another"; });
  change_setup([](RankedSetup& other) { other.offload.stream = false; });
  change_setup([](RankedSetup& other) { other.offload.ring_slots = 3; });
  change_setup([](RankedSetup& other) { other.offload.resident_blocks = 3; });
  change_setup([](RankedSetup& other) { other.offload.resident_policy = ResidentPolicy::spread; });
  const auto change_request = [&](const auto& change) {
    std::vector<GenerateRequest> other = requests;
    change(other[0]);
    expect_new(setup, other);
  };
  change_request([](GenerateRequest& other) { other.prompt = "another"; });
  change_request([](GenerateRequest& other) { other.prompt_embeds_seed = 1; });
  change_request([](GenerateRequest& other) { other.prompt_embeds_file = "a"; });
  change_request([](GenerateRequest& other) { other.images = {"a", "b"}; });
  change_request([](GenerateRequest& other) { other.images = {"a\", \"b"}; });
  change_request([](GenerateRequest& other) { other.height = 64; });
  change_request([](GenerateRequest& other) { other.width.reset(); });
  change_request([](GenerateRequest& other) { other.num_inference_steps = 9; });
  change_request([](GenerateRequest& other) { other.guidance_scale = 9; });
  change_request([](GenerateRequest& other) { other.seed = 9; });
  change_request([](GenerateRequest& other) { other.noise_dtype = NoiseDType::bfloat16; });
  change_request([](GenerateRequest& other) { other.noise_file = "a"; });
  change_request([](GenerateRequest& other) { other.output_type = OutputType::latent; });
  change_request([](GenerateRequest& other) { other.keep_tensors = false; });
  expect_new(setup, {});
}

TEST(RunFacts, AFingerprintIsThatOfTheWeights) {
  const auto of = [](bool text_encoder) {
    return fingerprint(open_pipeline(ModelFolder::open(tiny_shapes()), {.text_encoder = text_encoder})->parts());
  };
  EXPECT_EQ(of(true), of(true));
  EXPECT_NE(of(true), of(false));
}

}  // namespace
}  // namespace lamina::test
