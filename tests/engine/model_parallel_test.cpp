// Whole generations of ranks that compute every sample together, each on a thread with a CPU device of its own, and
// what no ranks can divide.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/expect_error.h"
#include "base/json.h"
#include "comm/local/local_communicator.h"
#include "comm/topology.h"
#include "engine/engine_fixture.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina::test {
namespace {

using testing::expect_error;

using Communicators = std::vector<std::unique_ptr<Communicator>>;

/// The communicators of every rank, by rank; none where a group is a rank alone.
Communicators connect(const Topology& topology, GroupKind kind) {
  Communicators by_rank(topology.world_size());
  for (const RankGroup& group : topology.groups(kind)) {
    if (group.size() == 1) continue;
    Communicators communicators = create_local_group(std::string(to_string(kind)), group.size());
    for (std::size_t i = 0; i < group.size(); ++i) by_rank[group.ranks[i]] = std::move(communicators[i]);
  }
  return by_rank;
}

struct Mode {
  const char* name;
  ParallelSizes sizes;
  bool text_encoder_tensor_parallel = true;
  bool stream = true;
};

void PrintTo(const Mode& mode, std::ostream* out) {
  *out << mode.name;
}

/// The result of every rank.
std::vector<GenerateResult> generate(const std::filesystem::path& model, const Mode& mode,
                                     const GenerateRequest& request) {
  const Topology topology(mode.sizes);
  const Communicators tensor = connect(topology, GroupKind::tensor);
  const Communicators sequence = connect(topology, GroupKind::sequence);
  std::vector<GenerateResult> results(topology.world_size());
  std::vector<std::optional<Error>> errors(topology.world_size());
  const auto run = [&](std::size_t rank) {
    Generator generator(
        create_cpu_device(),
        open_pipeline(ModelFolder::open(model), {.groups = {tensor[rank].get(), sequence[rank].get()},
                                                 .text_encoder_tensor_parallel = mode.text_encoder_tensor_parallel}),
        {.stream = mode.stream, .poison_released = true});
    results[rank] = generator.generate(request);
  };
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < results.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        run(rank);
      } catch (const Error& error) {
        errors[rank] = error;
        for (Communicator* group : {tensor[rank].get(), sequence[rank].get()})
          if (group != nullptr) group->abort(error);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) throw *error;
  return results;
}

class ModelParallel : public ::testing::TestWithParam<Mode> {
 protected:
  static void expect_recorded(const RecordedCase& recorded, const Mode& mode) {
    const ScratchFolder scratch;
    const Fixtures fixtures(recorded.tensors);
    const GenerateRequest request = recorded_request(recorded, fixtures, scratch.path());
    const std::string name = recorded.name;
    const std::vector<GenerateResult> results = generate(recorded_model(recorded, scratch.path()), mode, request);
    const std::vector<float>& latents = tensor_of(results.front(), "latents").values;
    EXPECT_LE(largest_difference(latents, fixtures.floats(name + ".latents")), 2e-4);
    EXPECT_LE(mean_difference(tensor_of(results.front(), "image").values, fixtures.floats(name + ".image")), 1.0 / 255);
    for (const GenerateResult& result : results) {
      EXPECT_EQ(tensor_of(result, "latents").values, latents);
      EXPECT_EQ(result.picture.rgb, results.front().picture.rgb);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, ModelParallel,
                         ::testing::Values(Mode{"tensor2", {.tensor = 2}}, Mode{"sequence2", {.sequence = 2}},
                                           Mode{"tensor2_sequence2", {.sequence = 2, .tensor = 2}},
                                           Mode{"tensor4_whole_text_encoder", {.tensor = 4}, false},
                                           Mode{"tensor2_resident", {.tensor = 2}, true, false}),
                         [](const auto& mode) { return mode.param.name; });

TEST_P(ModelParallel, FindsTheRecordedPicture) {
  expect_recorded({"micro", "micro.safetensors", "micro.json", true}, GetParam());
}

TEST_P(ModelParallel, FindsItOfTokensThatDoNotDivide) {
  expect_recorded({"micro_odd", "micro.safetensors", "micro.json", true}, GetParam());
}

/// What a model cannot be divided by is refused before there is a device.
class ModelParallelRefusal : public ::testing::Test {
 protected:
  static void expect_refused(const std::filesystem::path& model, const ParallelSizes& sizes,
                             const std::vector<std::string>& says, bool text_encoder_tensor_parallel = true) {
    const Topology topology(sizes);
    const Communicators tensor = connect(topology, GroupKind::tensor);
    const Communicators sequence = connect(topology, GroupKind::sequence);
    expect_error(ErrorCode::incompatible, says, [&] {
      open_pipeline(ModelFolder::open(model), {.groups = {tensor[0].get(), sequence[0].get()},
                                               .text_encoder_tensor_parallel = text_encoder_tensor_parallel});
    });
  }

  ScratchFolder scratch_;
  std::filesystem::path micro_ = micro_model(scratch_.path());
};

TEST_F(ModelParallelRefusal, HeadsOfTensorParallelRanks) {
  expect_refused(tiny_shapes(), {.tensor = 2},
                 {"transformer/config.json", "num_attention_heads", "5 attention heads", "--tensor-parallel-size 2",
                  "possible are 1, 5"});
  expect_refused(micro_, {.tensor = 3}, {"8 attention heads", "--tensor-parallel-size 3", "possible are 1, 2, 4, 8"});
}

TEST_F(ModelParallelRefusal, FeedForwardOfTensorParallelRanks) {
  const auto config = micro_ / "transformer" / "config.json";
  Json json = read_json_file(config);
  json["mlp_ratio"] = 3.015625;  // 386 features
  std::filesystem::remove(config);
  std::ofstream(config) << json;
  expect_refused(micro_, {.tensor = 4},
                 {"transformer/config.json", "mlp_ratio", "386 feed-forward features", "--tensor-parallel-size 4",
                  "possible are 1, 2"});
}

TEST_F(ModelParallelRefusal, HeadsOfSequenceParallelRanks) {
  expect_refused(
      micro_, {.sequence = 3},
      {"transformer/config.json", "num_attention_heads", "8 attention heads", "--usp 3", "possible are 1, 2, 4, 8"});
  expect_refused(micro_, {.sequence = 4, .tensor = 4},
                 {"2 attention heads on each of --tensor-parallel-size 4 ranks", "--usp 4", "possible are 1, 2"},
                 false);
}

TEST_F(ModelParallelRefusal, HeadsOfTheTextEncoder) {
  expect_refused(micro_, {.tensor = 4},
                 {"text_encoder/config.json", "num_key_value_heads", "2 key and value heads",
                  "--tensor-parallel-size 4", "possible are 1, 2", "--text-encoder-tp-size 1"});
  expect_refused(micro_, {.tensor = 8},
                 {"text_encoder/config.json", "num_attention_heads", "4 attention heads", "--text-encoder-tp-size 1"});
}

/// A rank's parts are loaded as usual: whoever insists on the checkpoint's pages is told why not.
TEST_F(ModelParallelRefusal, MappedBackingOfParts) {
  const Communicators group = create_local_group("tensor", 2);
  const auto open = [&](HostBackingChoice backing) {
    return Generator(create_cpu_device(),
                     open_pipeline(ModelFolder::open(micro_), {.groups = {.tensor = group[0].get()}}),
                     {.stream = true, .host_backing = backing});
  };
  expect_error(ErrorCode::incompatible, {"'mapped'", "tensor parallelism over 2 ranks"},
               [&] { open(HostBackingChoice::mapped); });
  open(HostBackingChoice::automatic);
}

}  // namespace
}  // namespace lamina::test
