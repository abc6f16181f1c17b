#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/cli_fixture.h"

namespace lamina::test {
namespace {

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

TEST_F(Cli, AnOutputThatCannotBeWrittenIsRefusedBeforeAnyWork) {
  const Outcome outcome = run_lamina(generate({"--output", "/proc/x.png"}, "/no/such/model"));
  expect_refused(outcome, {"/proc/x.png"});
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

}  // namespace
}  // namespace lamina::test
