#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "test_data.h"

namespace lamina::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

std::string slurp(std::FILE* file) {
  std::rewind(file);
  std::string text;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file)) text.append(buffer.data(), count);
  return text;
}

/// Runs the program with these arguments, without a shell.
Outcome run_lamina(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), LAMINA_PROGRAM);
  std::FILE* out = std::tmpfile();
  std::FILE* err = std::tmpfile();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::fileno(out), STDOUT_FILENO);
    ::dup2(::fileno(err), STDERR_FILENO);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv(LAMINA_PROGRAM, argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out), slurp(err)};
  std::fclose(out);
  std::fclose(err);
  return outcome;
}

class Cli : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("lamina-cli-test-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  /// A small run; later arguments override nothing, they add.
  std::vector<std::string> generate(const std::vector<std::string>& more, const std::string& model = kModel) const {
    std::vector<std::string> arguments{"generate", model,     "--prompt", "a red circle",          "--height",
                                       "32",       "--width", "32",       "--num-inference-steps", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  static inline const std::string kModel = test_data::models() / "tiny-shapes";
  fs::path folder_;
};

/// Exit code 2 and one line on stderr that holds all of `parts`.
void expect_refused(const Outcome& outcome, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
}

/// A copy and a computation for each visit of each streamed stage, and the stages one behind the other.
void expect_trace_of_two_stages(const Json& trace, const Json& report) {
  struct Stage {
    std::size_t visits = 0;
    double begin = std::numeric_limits<double>::infinity();
    double end = 0;
  };
  std::map<std::string, Stage> stages;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("name") == "stall") continue;
    Stage& stage = stages[event.at("cat")];
    const double begin = event.at("ts");
    ++stage.visits;
    stage.begin = std::min(stage.begin, begin);
    stage.end = std::max(stage.end, begin + event.at("dur").get<double>());
  }
  ASSERT_EQ(stages.size(), 2U);
  for (const Json& stage : report.at("stages")) {
    if (!stage.contains("stream")) continue;
    std::size_t expected = 0;
    for (const Json& unit : stage.at("stream").at("units"))
      expected += unit.at("visits").get<std::size_t>() + unit.at("fetches").get<std::size_t>();
    EXPECT_EQ(stages[stage.at("stage")].visits, expected);
  }
  EXPECT_LE(stages["encode prompt"].end, stages["denoise"].begin);
}

TEST_F(Cli, GeneratesAPictureReportAndTensors) {
  const Outcome outcome = run_lamina(generate(
      {"--enable-distributed-layerwise-offload", "--device-memory", "13MiB", "--seed", "3", "--output", file("a.png"),
       "--report", file("a.json"), "--save-tensors", file("a.safetensors"), "--trace", file("a.trace.json")}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(file("a.png")));
  EXPECT_THAT(outcome.out, HasSubstr("streamed"));
  const Json report = read_json_file(file("a.json"));
  EXPECT_EQ(report.at("configuration").at("offload"), "dlo");
  EXPECT_LE(report.at("device_peak_bytes").get<std::size_t>(), 13U << 20);
  EXPECT_TRUE(fs::exists(file("a.safetensors")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}), 4);
  expect_trace_of_two_stages(read_json_file(file("a.trace.json")), report);
}

TEST_F(Cli, VaeTilingIsChosenAndNoted) {
  const auto large = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{
        "generate", kModel,        "--prompt-embeds",       "random:1", "--height", "32", "--width", "160",
        "--output", file("a.png"), "--num-inference-steps", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_lamina(arguments);
  };
  const Outcome on = large({"--vae-tiling", "on", "--report", file("a.json")});
  ASSERT_EQ(on.exit_code, 0) << on.err;
  EXPECT_THAT(on.err, HasSubstr("stage 'decode' streams its feature maps from host memory, as asked"));
  EXPECT_EQ(read_json_file(file("a.json")).at("stages").back().at("maps"), "host");
  const std::string picture = read_text_file(file("a.png"));
  const Outcome automatic = large({});
  ASSERT_EQ(automatic.exit_code, 0) << automatic.err;
  EXPECT_THAT(automatic.err, ::testing::Not(HasSubstr("feature maps")));
  EXPECT_EQ(read_text_file(file("a.png")), picture);
  expect_refused(large({"--vae-tiling", "maybe"}), {"--vae-tiling", "maybe"});
}

TEST_F(Cli, EqualPicturesAreEqualFilesInEveryMode) {
  ASSERT_EQ(run_lamina(generate({"--seed", "3", "--output", file("resident.png")})).exit_code, 0);
  ASSERT_EQ(run_lamina(generate({"--seed", "3", "--enable-distributed-layerwise-offload", "--dlo-resident-layers", "5",
                                 "--dlo-resident-policy", "spread", "--dlo-slots", "3", "--output", file("dlo.png")}))
                .exit_code,
            0);
  ASSERT_EQ(run_lamina(generate({"--seed", "4", "--output", file("other.png")})).exit_code, 0);
  EXPECT_EQ(read_text_file(file("resident.png")), read_text_file(file("dlo.png")));
  EXPECT_NE(read_text_file(file("resident.png")), read_text_file(file("other.png")));
  EXPECT_THAT(read_text_file(file("dlo.png")), HasSubstr("a red circle"));
}

TEST_F(Cli, RefusalsAreOneLineAndExitCodeTwo) {
  const std::string out = file("x.png");
  expect_refused(run_lamina(generate({"--output", out}, "/no/such/model")),
                 {"not_found", "no such model", "/no/such/model"});
  expect_refused(run_lamina(generate({"--output", "/no/such/folder/x.png"})), {"/no/such/folder"});
  expect_refused(run_lamina(generate({"--output", file("x.jpg")})), {"--output", "PNG"});
  expect_refused(run_lamina(generate({"--output", out, "--device-memory", "much"})), {"--device-memory", "much"});
  for (const char* size : {"much", "-5", "0", "5 apples"})
    expect_refused(run_lamina(generate({"--output", out, "--host-memory-limit", size})),
                   {"invalid_argument", "--host-memory-limit", size});
  expect_refused(
      run_lamina(generate({"--output", out, "--enable-distributed-layerwise-offload", "--host-memory-limit", "3MiB"})),
      {"out_of_host_memory", "weights ", "staging ", "3.0 MiB allowed by --host-memory-limit"});
  expect_refused(run_lamina(generate({"--output", out, "--device", "cuda:1000"})), {"unavailable", "cuda:1000: "});
  expect_refused(run_lamina(generate({"--output", out, "--device", "tpu"})), {"invalid_argument", "tpu", "cuda:N"});
  expect_refused(run_lamina(generate({"--output", out, "--device-memory", "4MiB"})),
                 {"out_of_device_memory", "4.0 MiB"});
  expect_refused(run_lamina(generate({"--output", file("x.tiff")})), {"--output", "PNG"});
  expect_refused(run_lamina(generate({"--output", out, "--report", file("./x.png")})), {"--output", "--report"});
  expect_refused(run_lamina(generate({"--output", out, "--save-tensors", out})), {"--output", "--save-tensors"});
  expect_refused(run_lamina(generate({"--output", out, "--report", file("r"), "--trace", file("r")})),
                 {"--report", "--trace"});
  EXPECT_TRUE(fs::is_empty(folder_)) << "a refused run left a file behind";
}

TEST_F(Cli, AnOutputThatCannotBeWrittenIsRefusedBeforeAnyWork) {
  const Outcome outcome = run_lamina(generate({"--output", "/proc/x.png"}, "/no/such/model"));
  expect_refused(outcome, {"/proc/x.png"});
}

TEST_F(Cli, UnknownAndIneffectiveFlagsAreErrors) {
  const std::vector<std::vector<std::string>> rows{
      {"--no-such-flag"},
      {"--dlo-slots", "3"},
      {"--dlo-resident-layers", "3"},
      {"--enable-distributed-layerwise-offload", "--dlo-resident-policy", "spread"},
      {"--enable-distributed-layerwise-offload", "--dlo-slots", "0"},
      {"--noise", "n.safetensors", "--seed", "4"},
      {"--noise", "n.safetensors", "--noise-dtype", "bfloat16"},
      {"--noise-dtype", "float64"},
      {"--prompt-embeds", "random:1"},
      {"--seed", "x"},
      {"--seed", "-1"},
      {"--seed", "010"},
      {"--seed", "99999999999999999999"},
      {"--seed", ""},
      {"--device-memory", ""},
      {"--enable-distributed-layerwise-offload=false", "--dlo-slots", "3"}};
  for (std::vector<std::string> row : rows) {
    row.insert(row.end(), {"--output", file("x.png")});
    const Outcome outcome = run_lamina(generate(row));
    expect_refused(outcome, {"invalid_argument"});
  }
  expect_refused(run_lamina({"inspect", kModel, "--device-memory", "1MiB"}), {"--device-memory"});
  for (const char* flag : {"--trace", "--report", "--save-tensors"})
    expect_refused(run_lamina(generate({"--output", file("x.png"), flag, ""})), {flag, "the name of a file"});
  expect_refused(run_lamina({}), {"subcommand"});
  EXPECT_EQ(run_lamina({"--help"}).exit_code, 0);
  EXPECT_EQ(run_lamina({"generate", "--help"}).exit_code, 0);
}

/// Files of this test's folder, hidden ones too.
std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}));
}

TEST_F(Cli, PromptsOfAFileAreSpreadOverReplicas) {
  std::ofstream(folder_ / "prompts.txt") << "\xEF\xBB\xBF"
                                         << "a red circle\r\n\n \t\na blue square\na red circle\n";
  const auto on_ranks = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", kModel, "--prompts", file("prompts.txt"), "--height", "32", "--width", "32",
                               "--num-inference-steps", "1", "--seed", "3"});
    return run_lamina(more);
  };
  ASSERT_EQ(run_lamina(generate({"--seed", "3", "--output", file("lone.png")})).exit_code, 0);
  const Outcome outcome =
      on_ranks({"--enable-distributed-layerwise-offload", "--data-parallel-size", "2", "--dlo-gather-chunks", "2",
                "--output", file("ranks.png"), "--report", file("ranks.json")});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* name : {"ranks-1.png", "ranks-3.png"})
    EXPECT_EQ(read_text_file(file(name)), read_text_file(file("lone.png"))) << name;
  EXPECT_NE(read_text_file(file("ranks-2.png")), read_text_file(file("lone.png")));
  const Json report = read_json_file(file("ranks.json"));
  ASSERT_EQ(report.at("ranks").size(), 2U);
  for (const Json& rank : report.at("ranks"))
    EXPECT_EQ(rank.at("gathered_bytes").get<std::size_t>(), 2 * rank.at("copied_bytes").get<std::size_t>());
  ASSERT_EQ(on_ranks({"--enable-distributed-layerwise-offload", "--data-parallel-size", "3", "--dlo-no-use-allgather",
                      "--output", file("local.png")})
                .exit_code,
            0);
  EXPECT_EQ(read_text_file(file("local-3.png")), read_text_file(file("lone.png")));
  ASSERT_EQ(on_ranks({"--output", file("one.png")}).exit_code, 0);
  EXPECT_EQ(read_text_file(file("one-1.png")), read_text_file(file("lone.png")));
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

TEST_F(Cli, OffloadThatIsOverriddenIsReported) {
  ASSERT_EQ(run_lamina(generate({"--output", file("lone.png")})).exit_code, 0);
  const auto same_picture = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--output", file("other.png")});
    const Outcome outcome = run_lamina(generate(more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(read_text_file(file("other.png")), read_text_file(file("lone.png")));
    return outcome;
  };
  const std::string dlo = "--enable-distributed-layerwise-offload";
  for (const std::string flag : {"--enable-cpu-offload", "--enable-layerwise-offload"}) {
    const std::string overridden = flag + " is overridden by " + dlo;
    EXPECT_THAT(same_picture({dlo, flag}).err, HasSubstr(overridden));
    EXPECT_THAT(same_picture({flag}).err, Not(HasSubstr("info")));
  }
  EXPECT_THAT(same_picture({dlo, "--enable-cpu-offload", "--data-parallel-size", "2"}).err,
              HasSubstr("--enable-cpu-offload is overridden by " + dlo));
  EXPECT_THAT(same_picture({"--enable-layerwise-offload"}).out, HasSubstr("(0 resident) x 1 passes, 12"));
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

/// Runs the program until `files` stand in `folder`, sends the signal as often as asked, and returns the exit code; -1
/// for a program that the signal killed.
int interrupt_lamina(std::vector<std::string> arguments, const fs::path& folder, std::size_t files, int signal,
                     int times = 1) {
  arguments.insert(arguments.begin(), LAMINA_PROGRAM);
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv(LAMINA_PROGRAM, argv.data());
    ::_exit(127);
  }
  for (int i = 0; i < 1000 && files_in(folder) < files; ++i) ::usleep(10'000);
  ::usleep(300'000);
  for (int i = 0; i < times; ++i) {
    EXPECT_EQ(::kill(child, signal), 0);
    ::usleep(20'000);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(Cli, AnInterruptedRunLeavesNothingBehind) {
  const std::vector<std::string> arguments = {"generate", kModel,        "--prompt",
                                              "x",        "--height",    "512",
                                              "--width",  "512",         "--num-inference-steps",
                                              "1000",     "--output",    file("x.png"),
                                              "--report", file("x.json")};
  EXPECT_EQ(interrupt_lamina(arguments, folder_, 2, SIGTERM), 128 + SIGTERM);
  EXPECT_EQ(interrupt_lamina(arguments, folder_, 2, SIGHUP), 128 + SIGHUP);
  // `timeout` and some shells signal a program and its group, so that one request comes twice.
  EXPECT_EQ(interrupt_lamina(arguments, folder_, 2, SIGTERM, 2), 128 + SIGTERM);
  EXPECT_EQ(files_in(folder_), 0U);
}

TEST_F(Cli, AnInterruptionCancelsWhatRanksHaveNotServed) {
  std::ofstream(folder_ / "prompts.txt") << "x\ny\nz\n";
  const std::vector<std::string> arguments = {"generate",
                                              kModel,
                                              "--prompts",
                                              file("prompts.txt"),
                                              "--height",
                                              "512",
                                              "--width",
                                              "512",
                                              "--num-inference-steps",
                                              "1000",
                                              "--data-parallel-size",
                                              "2",
                                              "--enable-distributed-layerwise-offload",
                                              "--output",
                                              file("x.png")};
  EXPECT_EQ(interrupt_lamina(arguments, folder_, 4, SIGINT), 128 + SIGINT);
  EXPECT_EQ(files_in(folder_), 1U) << "of the prompts alone";
}

TEST_F(Cli, AnInterruptionEndsTheWritingOfWeights) {
  constexpr std::uintmax_t kRoom = 10'000'000'000;  // that synth asks for before it begins; little of it is written
  if (fs::space(folder_).available < kRoom) GTEST_SKIP() << "10 GB of disk are needed";
  EXPECT_EQ(interrupt_lamina({"synth", "--size", "klein-4b", file("m")}, folder_, 1, SIGINT), 128 + SIGINT);
  EXPECT_EQ(files_in(folder_), 0U);
  EXPECT_EQ(interrupt_lamina({"bench", "--synthetic", "klein-4b", "--synthetic-folder", folder_.string()}, folder_, 1,
                             SIGINT),
            128 + SIGINT);
  EXPECT_EQ(files_in(folder_), 0U);
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

TEST_F(Cli, AStdoutThatTakesNothingIsAnError) {
  for (const std::string arguments : {"--help", "--version", "generate --help"}) {
    const std::string log = file("stderr");
    const int status = std::system((std::string(LAMINA_PROGRAM) + " " + arguments + " >/dev/full 2>" + log).c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << arguments;
    EXPECT_THAT(read_text_file(log), HasSubstr("unavailable: cannot write to the standard output")) << arguments;
  }
}

TEST_F(Cli, AStderrThatTakesNothingEndsNoRun) {
  const auto run = [&](const std::string& arguments) {
    const int status = std::system((std::string(LAMINA_PROGRAM) + " " + arguments + " >/dev/null 2>/dev/full").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(run("generate " + file("no-model") + " --prompt x --output " + file("a.png")), 2);
  EXPECT_EQ(run("--bogus"), 2);
  EXPECT_EQ(run("generate " + kModel + " --prompt x --height 16 --width 16 --num-inference-steps 1 --output " +
                file("a.png")),
            0);
  EXPECT_EQ(files_in(folder_), 1U);
}

/// oneDNN divides work by the team that was promised to it, so an environment that keeps threads back must not pass.
TEST_F(Cli, OpenMPsVariablesChangeNoPicture) {
  ::unsetenv("LAMINA_CPU_THREADS");
  ASSERT_EQ(run_lamina(generate({"--output", file("plain.png")})).exit_code, 0);
  for (const auto& [name, value] :
       {std::pair{"OMP_DYNAMIC", "true"}, {"OMP_MAX_ACTIVE_LEVELS", "0"}, {"OMP_NUM_THREADS", "1"}}) {
    ::setenv(name, value, 1);
    const Outcome outcome = run_lamina(generate({"--output", file("other.png")}));
    ::unsetenv(name);
    ASSERT_EQ(outcome.exit_code, 0) << name << ": " << outcome.err;
    EXPECT_EQ(read_text_file(file("plain.png")), read_text_file(file("other.png"))) << name;
  }
  ::setenv("OMP_THREAD_LIMIT", "1", 1);
  ::setenv("LAMINA_CPU_THREADS", "2", 1);
  const Outcome limited = run_lamina(generate({"--output", file("limited.png")}));
  ::unsetenv("OMP_THREAD_LIMIT");
  ::unsetenv("LAMINA_CPU_THREADS");
  EXPECT_EQ(limited.exit_code, 2);
  EXPECT_THAT(limited.err, HasSubstr("OMP_THREAD_LIMIT"));
}

TEST_F(Cli, SynthWritesAModelThatRunsOnRandomEmbeddings) {
  const std::string model = file("model");
  const Outcome synth = run_lamina({"synth", "--size", kModel + "/transformer/config.json", "--component",
                                    "transformer", "--component", "vae", "--shards", "2", "--seed", "5", model});
  ASSERT_EQ(synth.exit_code, 0) << synth.err;
  EXPECT_THAT(synth.out, HasSubstr(model));
  const auto run = [&](const std::string& embeds, const std::string& picture) {
    return run_lamina({"generate", model, "--prompt-embeds", embeds, "--height", "32", "--width", "32",
                       "--num-inference-steps", "1", "--output", file(picture)});
  };
  ASSERT_EQ(run("random:1", "a.png").exit_code, 0);
  ASSERT_EQ(run("random:2", "b.png").exit_code, 0);
  EXPECT_THAT(read_text_file(file("a.png")), HasSubstr("random:1"));
  EXPECT_NE(read_text_file(file("a.png")), read_text_file(file("b.png")));
  expect_refused(run("random:", "x.png"), {"--prompt-embeds", "random:SEED"});
  expect_refused(run("random:-1", "x.png"), {"--prompt-embeds", "random:-1"});
  expect_refused(run("no.safetensors", "x.png"), {"no.safetensors"});
  EXPECT_EQ(run("", "x.png").exit_code, 2);
  expect_refused(run_lamina(generate({"--output", file("x.png")}, model)), {"text_encoder", "prompt embeddings"});
  expect_refused(run_lamina({"synth", "--size", "klein-4b", model}), {model, "not empty"});
  EXPECT_EQ(run_lamina({"generate", model, "--output", file("x.png")}).exit_code, 2) << "no prompt at all";
  EXPECT_FALSE(fs::exists(file("x.png")));
}

TEST_F(Cli, HostBackingIsChosenAndShown) {
  const std::vector<std::string> dlo{"--enable-distributed-layerwise-offload", "--dlo-host-backing"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), dlo.begin(), dlo.end());
    return more;
  };
  for (const auto& [flag, backing] :
       {std::pair{"auto", "checkpoint mmap"}, {"mapped", "checkpoint mmap"}, {"private", "private pinned"}}) {
    const std::string picture = file(std::string(flag) + ".png");
    const Outcome outcome = run_lamina(generate(with({flag, "--output", picture, "--report", file("r.json")})));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(read_json_file(file("r.json")).at("configuration").at("host_backing"), backing);
    EXPECT_EQ(read_text_file(picture), read_text_file(file("auto.png")));
    const Outcome inspect = run_lamina({"inspect", kModel, dlo[0], dlo[1], flag});
    EXPECT_EQ(inspect.exit_code, 0) << inspect.err;
    EXPECT_THAT(inspect.out, HasSubstr("host weights " + std::string(backing)));
  }
  expect_refused(run_lamina(generate(with({"floppy", "--output", file("x.png")}))), {"--dlo-host-backing", "floppy"});
  expect_refused(run_lamina(generate({"--dlo-host-backing", "mapped", "--output", file("x.png")})),
                 {"--dlo-host-backing", "--enable-distributed-layerwise-offload"});
}

TEST_F(Cli, InspectTellsWhyWeightsAreNotMapped) {
  const std::string model = file("model");
  ASSERT_EQ(run_lamina({"synth", "--size", kModel + "/transformer/config.json", "--component", "transformer", model})
                .exit_code,
            0);
  std::vector<std::string> inspect{"inspect", model, "--json", "--enable-distributed-layerwise-offload"};
  const auto part = [&] { return parse_json(run_lamina(inspect).out, "stdout").at("parts").at(0).at("host_weights"); };
  EXPECT_EQ(part().at("backing"), "checkpoint mmap");
  EXPECT_TRUE(part().at("reason").is_null());
  inspect.insert(inspect.end(), {"--dlo-host-backing", "private"});
  EXPECT_EQ(part().at("backing"), "private pinned");
  EXPECT_EQ(part().at("refusal"), "not_asked_for");
  EXPECT_THAT(part().at("reason").get<std::string>(), HasSubstr("asks for private weights"));
  inspect.erase(inspect.begin() + 3, inspect.end());
  EXPECT_TRUE(part().is_null()) << "nothing stays on the host without offload";
}

TEST_F(Cli, InspectShowsWhatStreams) {
  const Outcome text = run_lamina({"inspect", kModel, "--enable-distributed-layerwise-offload"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("single_transformer_blocks"));
  const Outcome json = run_lamina({"inspect", kModel, "--json"});
  EXPECT_EQ(json.exit_code, 0) << json.err;
  EXPECT_EQ(parse_json(json.out, "stdout").at("parts").size(), 4U);
  const Outcome memory = run_lamina({"inspect", kModel, "--memory", "--host-memory-limit", "1GiB"});
  EXPECT_EQ(memory.exit_code, 0) << memory.err;
  EXPECT_THAT(memory.out, HasSubstr("1.00 GiB allowed"));
}

/// A benchmark of one step on the CPU, without the resident run.
std::vector<std::string> bench(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"bench", "--device", "cpu", "--steps", "1", "--no-resident"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
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
