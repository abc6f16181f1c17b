// The command under mpirun.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "mpirun.h"
#include "test_data.h"

namespace lamina::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class MpiCli : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("lamina-mpi-cli-test-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  /// A small streamed picture; one process is started alone.
  MpiRun generate(std::size_t processes, const std::vector<std::string>& more, bool recovers = false) const {
    std::vector<std::string> command{LAMINA_PROGRAM,
                                     "generate",
                                     (test_data::models() / "tiny-shapes").string(),
                                     "--height",
                                     "32",
                                     "--width",
                                     "32",
                                     "--num-inference-steps",
                                     "2",
                                     "--enable-distributed-layerwise-offload"};
    command.insert(command.end(), more.begin(), more.end());
    return Mpirun(processes, command, recovers).wait();
  }

  fs::path folder_;
};

TEST_F(MpiCli, AnyNumberOfProcessesMakesTheSamePicture) {
  const std::vector<std::string> prompt{"--prompt", "a red circle", "--output"};
  const auto with = [&](const std::string& picture, std::vector<std::string> flags) {
    flags.insert(flags.begin(), prompt.begin(), prompt.end());
    flags.insert(flags.begin() + 3, file(picture));
    return flags;
  };
  const MpiRun alone = generate(1, with("alone.png", {}));
  ASSERT_EQ(alone.exit_code, 0) << alone.text;
  struct Case {
    const char* name;
    std::size_t processes;
    const char* replicas;
  };
  for (const Case& of : {Case{"2x1", 2, "2"}, Case{"2x2", 2, "4"}, Case{"4x1", 4, "4"}}) {
    const std::string picture = std::string(of.name) + ".png";
    const std::string report = file(of.name) + ".json";
    const MpiRun run = generate(of.processes, with(picture, {"--data-parallel-size", of.replicas, "--report", report}));
    ASSERT_EQ(run.exit_code, 0) << run.text;
    EXPECT_EQ(read_text_file(file(picture)), read_text_file(file("alone.png"))) << of.name;
    EXPECT_EQ(std::to_string(read_json_file(report).at("ranks").size()), of.replicas);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}), 4 + 3) << "nothing half-written";
}

TEST_F(MpiCli, EachProcessWritesThePicturesThatItMade) {
  std::ofstream(file("prompts")) << "a red circle\na blue square\na green triangle\n";
  const MpiRun run = generate(2, {"--prompts", file("prompts"), "--output", file("a.png"), "--data-parallel-size", "2",
                                  "--dlo-no-use-allgather"});
  ASSERT_EQ(run.exit_code, 0) << run.text;
  for (const char* name :
       {"a-1.png\n  rank                  0", "a-2.png\n  rank                  1", "a-3.png\n  rank"})
    EXPECT_THAT(run.text, HasSubstr(name));
  for (const char* name : {"a-1.png", "a-2.png", "a-3.png"}) EXPECT_TRUE(fs::exists(file(name))) << name;
  EXPECT_NE(read_text_file(file("a-1.png")), read_text_file(file("a-2.png")));
}

TEST_F(MpiCli, RefusesProcessesThatDoNotMatchTheRanks) {
  const std::vector<std::string> picture{"--prompt", "a red circle", "--output", file("a.png")};
  const auto refused = [&](std::vector<std::string> flags, const std::string& part) {
    flags.insert(flags.end(), picture.begin(), picture.end());
    const MpiRun run = generate(2, flags, true);
    EXPECT_THAT(run.text, HasSubstr("lamina, process 0: incompatible: " + part));
    EXPECT_THAT(run.text, HasSubstr("process 0 exits with 2\n"));
    EXPECT_THAT(run.text, HasSubstr("process 1 exits with 2\n"));
  };
  refused({"--data-parallel-size", "3"}, "mpirun started 2 ranks; --data-parallel-size 3");
  refused({}, "mpirun started 2 ranks; --data-parallel-size 1");
  refused({"--data-parallel-size", "2", "--ranks-per-process", "2"}, "mpirun started 4 ranks; --data-parallel-size 2");
  EXPECT_FALSE(fs::exists(file("a.png")));
}

TEST_F(MpiCli, ARequestThatIsRefusedIsToldOnce) {
  const MpiRun run = generate(
      2,
      {"--prompt", "a red circle", "--output", file("a.png"), "--data-parallel-size", "2", "--noise", file("absent")},
      true);
  EXPECT_THAT(run.text, HasSubstr("lamina, process 0: not_found: "));
  EXPECT_THAT(run.text, Not(HasSubstr("lamina, process 1: ")));
  EXPECT_THAT(run.text, HasSubstr("process 0 exits with 2\n"));
  EXPECT_THAT(run.text, HasSubstr("process 1 exits with 0\n"));
}

}  // namespace
}  // namespace lamina::test
