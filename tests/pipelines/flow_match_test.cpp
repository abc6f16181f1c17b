#include "pipelines/flow_match.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/expect_error.h"
#include "base/json.h"
#include "base/temporary_folder.h"
#include "pipelines/paths.h"

namespace lamina {
namespace {

FlowMatchScheduler demo_scheduler() {
  return FlowMatchScheduler::load(testing::tiny_shapes("scheduler"));
}

void expect_schedule(const FlowMatchSchedule& found, const Json& expected, const std::string& name) {
  EXPECT_DOUBLE_EQ(found.mu, expected["mu"].get<double>()) << name;
  EXPECT_EQ(found.sigmas, expected["sigmas"].get<std::vector<float>>()) << name;
  EXPECT_EQ(found.timesteps, expected["timesteps"].get<std::vector<float>>()) << name;
}

TEST(FlowMatch, GivesTheReferencesSchedulesBitForBit) {
  const Json schedules = read_json_file(testing::flux2_fixture("fixtures.json"))["schedule"];
  ASSERT_GT(schedules.size(), 3U);
  for (const Json& expected : schedules) {
    const auto tokens = expected["image_tokens"].get<std::int64_t>();
    const auto steps = expected["steps"].get<std::int64_t>();
    expect_schedule(demo_scheduler().schedule(tokens, steps), expected, std::to_string(tokens));
  }
}

TEST(FlowMatch, GivesTheCasesSchedules) {
  const Json fixtures = read_json_file(testing::flux2_fixture("fixtures.json"));
  for (const std::string name : {"cfg128", "wide", "edit"}) {
    const Json& expected = fixtures[name];
    const std::int64_t tokens =
        expected["height"].get<std::int64_t>() / 16 * (expected["width"].get<std::int64_t>() / 16);
    expect_schedule(demo_scheduler().schedule(tokens, expected["num_inference_steps"].get<std::int64_t>()), expected,
                    name);
  }
}

TEST(FlowMatch, OneStepGoesAllTheWay) {
  const FlowMatchSchedule schedule = demo_scheduler().schedule(64, 1);
  EXPECT_EQ(schedule.sigmas, (std::vector<float>{1.0F, 0.0F}));
  EXPECT_EQ(schedule.timesteps, (std::vector<float>{1000.0F}));
}

TEST(FlowMatch, RefusesStepsOutOfRange) {
  for (const std::int64_t steps : {-1, 0, 1001})
    testing::expect_error(ErrorCode::invalid_argument, {std::to_string(steps), "1 to 1000"},
                          [&] { demo_scheduler().schedule(64, steps); });
}

class FlowMatchConfigTest : public ::testing::Test {
 protected:
  FlowMatchScheduler load(const char* patch) const {
    Json config = read_json_file(testing::tiny_shapes("scheduler/scheduler_config.json"));
    config.merge_patch(parse_json(patch, "patch"));
    folder_.write("scheduler_config.json", config.dump());
    return FlowMatchScheduler::load(folder_.path());
  }

  void refused(const char* patch, const char* field) const {
    testing::expect_error(ErrorCode::incompatible, {(folder_.path() / "scheduler_config.json").string(), field},
                          [&] { load(patch); });
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(FlowMatchConfigTest, StaticShiftNeedsNoTokenCount) {
  // sigma' = 3 s / (1 + 2 s) of s = 1, 3/4, 1/2, 1/4.
  const FlowMatchSchedule schedule = load(R"({"use_dynamic_shifting": false})").schedule(64, 4);
  const std::vector<float> expected = {1.0F, 0.9F, 0.75F, 0.5F, 0.0F};
  ASSERT_EQ(schedule.sigmas.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_FLOAT_EQ(schedule.sigmas[i], expected[i]);
}

TEST_F(FlowMatchConfigTest, TimestepsScaleWithTheTrainingsCount) {
  const FlowMatchSchedule schedule = load(R"({"num_train_timesteps": 10})").schedule(64, 1);
  EXPECT_EQ(schedule.timesteps, (std::vector<float>{10.0F}));
}

/// Recorded by tools/record/record_schedules.py.
TEST_F(FlowMatchConfigTest, EveryOptionGivesTheReferencesSchedules) {
  const Json schedules = read_json_file(testing::flux2_fixture("schedules.json"));
  ASSERT_GE(schedules.size(), 30U);
  for (const Json& expected : schedules) {
    const std::string config = expected["config"].dump();
    const auto given = expected["given"].get<std::vector<double>>();
    const FlowMatchSchedule found =
        load(config.c_str())
            .schedule(expected["image_tokens"].get<std::int64_t>(), expected["steps"].get<std::int64_t>(), given);
    // Python's pow and exp may differ from ours in the last bit of a double, and so in the last of a float.
    for (const auto& [values, name] : {std::pair(found.sigmas, "sigmas"), {found.timesteps, "timesteps"}}) {
      const auto recorded = expected[name].get<std::vector<float>>();
      ASSERT_EQ(values.size(), recorded.size()) << config;
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_FLOAT_EQ(values[i], recorded[i]) << config << name << i;
    }
  }
}

TEST_F(FlowMatchConfigTest, RefusesSigmasThatMakeNoSchedule) {
  const FlowMatchScheduler scheduler = load("{}");
  const auto refused_sigmas = [&](const std::vector<double>& sigmas, const char* part) {
    testing::expect_error(ErrorCode::invalid_argument, {part}, [&] { scheduler.schedule(64, 2, sigmas); });
  };
  refused_sigmas({1.0}, "1 sigmas for 2");
  refused_sigmas({1.0, 1.5}, "1.5");
  refused_sigmas({1.0, -0.1}, "-0.1");
  refused_sigmas({1.0, std::nan("")}, "nan");
  testing::expect_error(ErrorCode::invalid_argument, {"no finite noise levels"},
                        [&] { load(R"({"shift_terminal": 0.1})").schedule(64, 1); });
  testing::expect_error(ErrorCode::invalid_argument, {"no finite noise levels"}, [&] {
    load(R"({"use_exponential_sigmas": true})").schedule(64, 2, std::vector<double>{1.0, 0.0});
  });
}

TEST_F(FlowMatchConfigTest, RefusesSchedulesOfAnotherKind) {
  refused(R"({"_class_name": "DDIMScheduler"})", "'_class_name'");
  refused(R"({"use_karras_sigmas": true, "use_beta_sigmas": true})", "'use_beta_sigmas'");
  refused(R"({"use_flow_sigmas": true})", "'use_flow_sigmas'");
  refused(R"({"shift_terminal": 1})", "'shift_terminal'");
  refused(R"({"time_shift_type": "quadratic"})", "'time_shift_type'");
  refused(R"({"shift": 0})", "'shift'");
  refused(R"({"num_train_timesteps": 0})", "'num_train_timesteps'");
}

TEST_F(FlowMatchConfigTest, NamesAMissingFile) {
  testing::expect_error(ErrorCode::not_found, {"scheduler_config.json"},
                        [&] { FlowMatchScheduler::load(folder_.path()); });
}

}  // namespace
}  // namespace lamina
