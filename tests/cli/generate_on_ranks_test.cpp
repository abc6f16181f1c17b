#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/cli_fixture.h"

namespace lamina::test {
namespace {

TEST_F(Cli, PromptsOfAFileAreSpreadOverReplicas) {
  std::ofstream(folder_ / "prompts.txt") << "\xEF\xBB\xBF"
                                         << "a red circle\r\n\n \t\na blue square\na red circle\n";
  const auto on_ranks = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", kModel, "--prompts", file("prompts.txt"), "--height", "32", "--width", "32",
                               "--num-inference-steps", "1", "--seed", "3"});
    return run_lamina(more);
  };
  ASSERT_EQ(run_lamina(generate({"--seed", "3", "--output", file("lone-1.png")})).exit_code, 0);
  ASSERT_EQ(run_lamina(generate({"--seed", "5", "--output", file("lone-3.png")})).exit_code, 0);
  const Outcome outcome =
      on_ranks({"--enable-distributed-layerwise-offload", "--data-parallel-size", "2", "--dlo-gather-chunks", "2",
                "--output", file("ranks.png"), "--report", file("ranks.json")});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("the prompts take the seeds 3 to 5"));
  for (const char* number : {"1", "3"})
    EXPECT_EQ(read_text_file(file("ranks-" + std::string(number) + ".png")),
              read_text_file(file("lone-" + std::string(number) + ".png")));
  const Json report = read_json_file(file("ranks.json"));
  ASSERT_EQ(report.at("ranks").size(), 2U);
  for (const Json& rank : report.at("ranks"))
    EXPECT_EQ(rank.at("gathered_bytes").get<std::size_t>(), 2 * rank.at("copied_bytes").get<std::size_t>());
  ASSERT_EQ(on_ranks({"--enable-distributed-layerwise-offload", "--data-parallel-size", "3", "--dlo-no-use-allgather",
                      "--output", file("local.png")})
                .exit_code,
            0);
  EXPECT_EQ(read_text_file(file("local-3.png")), read_text_file(file("lone-3.png")));
  ASSERT_EQ(on_ranks({"--output", file("one.png")}).exit_code, 0);
  EXPECT_EQ(read_text_file(file("one-1.png")), read_text_file(file("lone-1.png")));
}

TEST_F(Cli, ALonePromptRunsOnOneOfSeveralReplicas) {
  ASSERT_EQ(run_lamina(generate({"--output", file("lone.png")})).exit_code, 0);
  const Outcome outcome = run_lamina(
      generate({"--enable-distributed-layerwise-offload", "--data-parallel-size", "2", "--output", file("ranks.png")}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(read_text_file(file("ranks.png")), read_text_file(file("lone.png")));
}

TEST_F(Cli, RanksThatDivideTheWeightsOfASample) {
  ASSERT_EQ(run_lamina(generate({"--output", file("lone.png"), "--save-tensors", file("lone.safetensors")})).exit_code,
            0);
  const Outcome outcome = run_lamina(generate(
      {"--use-hsdp", "--hsdp-shard-size", "2", "--enable-distributed-layerwise-offload", "--dlo-no-use-allgather",
       "--output", file("ranks.png"), "--report", file("ranks.json"), "--save-tensors", file("ranks.safetensors")}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(read_text_file(file("ranks.png")), read_text_file(file("lone.png")));
  EXPECT_EQ(read_text_file(file("ranks.safetensors")), read_text_file(file("lone.safetensors")));
  EXPECT_THAT(outcome.err, HasSubstr("3/3"));  // one pass for each of prompt, step and decoding
  const Json report = read_json_file(file("ranks.json"));
  ASSERT_EQ(report.at("ranks").size(), 2U);
  for (const Json& rank : report.at("ranks")) {
    EXPECT_GT(rank.at("copied_bytes").get<std::size_t>(), 0U);
    EXPECT_GT(rank.at("host_bytes").get<std::size_t>(), 0U);
  }
}

TEST_F(Cli, RefusalsOfSeveralReplicasNameTheFlag) {
  const std::string dlo = "--enable-distributed-layerwise-offload";
  const auto refused = [&](std::vector<std::string> more, const std::vector<std::string>& parts) {
    more.insert(more.end(), {"--output", file("x.png")});
    expect_refused(run_lamina(generate(more)), parts);
  };
  refused({"--data-parallel-size", "0"}, {"invalid_argument", "--data-parallel-size"});
  refused({dlo, "--data-parallel-size", "2", "--dlo-gather-chunks", "0"}, {"invalid_argument", "--dlo-gather-chunks"});
  for (const char* chunks : {"-1", "1025", "9223372036854775807"})
    refused({dlo, "--data-parallel-size", "2", "--dlo-gather-chunks", chunks}, {"--dlo-gather-chunks", chunks});
  refused({"--data-parallel-size", "-1"}, {"--data-parallel-size", "-1"});
  refused({"--max-concurrent-requests-per-replica", "-1"}, {"--max-concurrent-requests-per-replica", "-1"});
  refused({"--dlo-no-use-allgather"}, {"invalid_argument", dlo});
  refused({dlo, "--data-parallel-size", "2", "--trace", file("x.trace")}, {"invalid_argument", "--trace"});
  refused({dlo, "--data-parallel-size", "2", "--save-tensors", file("x.png")}, {"--save-tensors", "--output"});
  refused({dlo, "--data-parallel-size", "2", "--use-hsdp"}, {"incompatible", "--use-hsdp", "--data-parallel-size"});
  refused({dlo, "--use-hsdp", "--hsdp-shard-size", "2"}, {"incompatible", "--dlo-no-use-allgather"});
  refused({"--hsdp-shard-size", "2"}, {"invalid_argument", "--use-hsdp"});
  refused({"--data-parallel-size", "2", "--enable-layerwise-offload"}, {"incompatible", "single device", dlo});
  refused({dlo, "--dlo-resident-with-allgather", "drop"}, {"invalid_argument", "keep"});
  refused({dlo, "--data-parallel-size", "2", "--dlo-resident-layers", "1", "--dlo-resident-with-allgather", "reject"},
          {"incompatible", "--dlo-resident-with-allgather reject"});
  refused({dlo, "--data-parallel-size", "2", "--dlo-host-backing", "mapped"}, {"incompatible", "mapped"});
  refused({dlo, "--data-parallel-size", "2", "--device", "cuda:1000"}, {"unavailable", "cuda"});
  refused({"--prompts", "p.txt"}, {"invalid_argument"});
  expect_refused(run_lamina({"generate", "/no/such/model", "--prompt", "x", dlo, "--data-parallel-size", "2",
                             "--output", file("x.png")}),
                 {"not_found", "/no/such/model"});
  EXPECT_TRUE(fs::is_empty(folder_)) << "a refused run left a file behind";
}

TEST_F(Cli, APictureThatCannotBeWrittenKeepsNoneOfTheOthers) {
  std::ofstream(folder_ / "prompts.txt") << "x\ny\nz\n";
  fs::create_symlink("/dev/full", folder_ / "ranks-2.png");
  const auto on_ranks = [&](const std::string& output) {
    return run_lamina({"generate", kModel, "--prompts", file("prompts.txt"), "--height", "32", "--width", "32",
                       "--num-inference-steps", "1", "--output", file(output)});
  };
  const Outcome outcome = on_ranks("ranks.png");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, ::testing::AllOf(HasSubstr("ranks-2.png"), HasSubstr("No space left on device")));
  EXPECT_TRUE(fs::is_regular_file(folder_ / "ranks-1.png"));
  EXPECT_TRUE(fs::is_regular_file(folder_ / "ranks-3.png"));

  expect_refused(on_ranks("numbered"), {"invalid_argument", "--output", ".png"});
  std::ofstream(folder_ / "prompts.txt") << "x\ny" << '\0' << "\n";
  expect_refused(on_ranks("zero.png"), {"invalid_argument", "line 2", "zero byte"});
}

}  // namespace
}  // namespace lamina::test
