#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/cli_fixture.h"

namespace lamina::test {
namespace {

/// A benchmark of one step on the CPU, without the resident run.
std::vector<std::string> bench(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"bench", "--device", "cpu", "--steps", "1", "--no-resident"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_F(Cli, BenchRefusesBeforeItWritesWeights) {
  const auto bench = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"bench", "--synthetic", "klein-9b", "--synthetic-folder", file("no-folder")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_lamina(arguments);
  };
  expect_refused(bench({"--height", "512", "17"}), {"height 17", "16"});
  expect_refused(bench({"--device", "cuda:1000"}), {"cuda:1000"});
  expect_refused(bench({"--device", "cpu", "--dtype", "bfloat16"}), {"bfloat16"});
  expect_refused(bench({"--dlo-slots", "0"}), {"dlo-slots"});
  for (const char* steps : {"0", "998", "0x2", " 2", ""}) expect_refused(bench({"--steps", steps}), {"--steps"});
}

TEST_F(Cli, BenchTimesAModelAndTracesTheLastSize) {
  const Outcome outcome = run_lamina(bench({kModel, "--height", "32", "--height", "64", "--width", "48", "--width",
                                            "32", "--json", "--trace", file("trace.json")}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json sizes = parse_json(outcome.out, "stdout").at("sizes");
  ASSERT_EQ(sizes.size(), 2U);
  EXPECT_EQ(sizes[0].at("height"), 32);
  EXPECT_EQ(sizes[0].at("width"), 48);
  EXPECT_EQ(sizes[1].at("height"), 64);
  EXPECT_EQ(sizes[1].at("width"), 32);
  EXPECT_TRUE(sizes[1].at("resident_ms").is_null());
  std::set<std::string> names;
  const Json trace = read_json_file(file("trace.json"));
  for (const Json& event : trace.at("traceEvents")) names.insert(event.at("name"));
  for (const Json& unit : sizes[1].at("units")) EXPECT_TRUE(names.contains(unit.at("unit"))) << unit.at("unit");
}

TEST_F(Cli, BenchWritesASyntheticModelAndRemovesIt) {
  const Outcome outcome = run_lamina(bench(
      {"--synthetic", kModel + "/transformer/config.json", "--synthetic-folder", folder_.string(), "--height", "32"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"cpu float32", "32x32", "ratio", "predicted", "units like transformer_blocks.0"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  EXPECT_EQ(files_in(folder_), 0U);
}

TEST_F(Cli, BenchComparesModes) {
  const std::vector<std::string> modes{kModel, "--data-parallel-size", "2", "--modes", "gather,idle", "--height", "32"};
  const Outcome table = run_lamina(bench(modes));
  ASSERT_EQ(table.exit_code, 0) << table.err;
  for (const char* part : {"2 ranks", "links", "ratio", "gather GB", "idle", "32x32", "beside busy ones"})
    EXPECT_THAT(table.out, HasSubstr(part));
  EXPECT_THAT(table.err, HasSubstr("gather"));

  std::vector<std::string> as_json = modes;
  as_json.push_back("--json");
  const Outcome json = run_lamina(bench(as_json));
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const Json rows = parse_json(json.out, "stdout").at("rows");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("mode"), "gather");
  EXPECT_EQ(rows[0].at("requests"), 2);
  EXPECT_EQ(rows[1].at("mode"), "idle");
  EXPECT_EQ(rows[1].at("requests"), 1);
  EXPECT_EQ(rows[0].at("gathered_bytes"), rows[1].at("gathered_bytes"));
}

TEST_F(Cli, BenchMeasuresTheRanksThatItsFlagsGive) {
  const Outcome outcome =
      run_lamina(bench({kModel, "--data-parallel-size", "2", "--dlo-no-use-allgather", "--height", "32", "--json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json rows = parse_json(outcome.out, "stdout").at("rows");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("mode"), "given");
  EXPECT_EQ(rows[0].at("requests"), 2);
  EXPECT_GT(rows[0].at("copied_bytes"), 0);
  EXPECT_EQ(rows[0].at("gathered_bytes"), 0);
}

TEST_F(Cli, BenchRefusesWhatItCannotTime) {
  expect_refused(run_lamina(bench({kModel, "--modes", "fast"})), {"--modes fast", "expected all or some of"});
  expect_refused(run_lamina(bench({kModel, "--modes", "gather"})), {"--modes gather", "--data-parallel-size"});
  expect_refused(run_lamina(bench({kModel, "--modes", "local", "--trace", file("t.json")})), {"--trace"});
  expect_refused(run_lamina(bench({kModel, "--data-parallel-size", "2", "--use-hsdp", "--dlo-no-use-allgather"})),
                 {"--use-hsdp", "--data-parallel-size"});
  expect_refused(run_lamina(bench({kModel, "--time-limit", "0"})), {"--time-limit"});
  const std::vector<std::string> synthetic{"--synthetic", kModel + "/transformer/config.json"};
  expect_refused(run_lamina(bench({})), {"invalid_argument", "one of MODEL and --synthetic"});
  expect_refused(run_lamina(bench({kModel, synthetic[0], synthetic[1]})), {"one of MODEL and --synthetic"});
  expect_refused(run_lamina(bench({kModel, "--height", "32", "--height", "64", "--width", "32"})),
                 {"--height names 2 pictures, --width 1"});
  expect_refused(run_lamina(bench({kModel, "--height", "33"})), {"height", "33"});
  expect_refused(run_lamina(bench({kModel, "--trace", "/no/such/folder/trace.json"})), {"/no/such/folder"});
  expect_refused(run_lamina(bench({kModel, "--json", "--trace", "/dev/stdout"})), {"--trace /dev/stdout", "prints"});
  expect_refused(run_lamina(bench({kModel, "--trace", ""})), {"--trace", "''"});
  expect_refused(run_lamina(bench({"--synthetic", "klein-40b", "--synthetic-folder", folder_.string()})),
                 {"klein-40b"});
  expect_refused(run_lamina({"bench", kModel, "--steps", "0"}), {"--steps"});
  EXPECT_EQ(files_in(folder_), 0U);
}

}  // namespace
}  // namespace lamina::test
