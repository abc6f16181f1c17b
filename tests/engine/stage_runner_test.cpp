#include "engine/residency/stage_runner.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/engine_fixture.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina::test {
namespace {

constexpr std::size_t kTransformer = 1;

/// Walks the transformer's blocks three times, computes nothing, and breaks off where it is told to.
class BreakingStage final : public Stage, private PassMember {
 public:
  explicit BreakingStage(std::size_t break_at) : break_at_(break_at) {}

  const std::string& name() const override { return name_; }
  std::size_t part() const override { return kTransformer; }
  void lay_out(Arena&) override { visits_ = 0; }
  void upload(StagingUploader&) override {}
  std::size_t passes() const override { return 3; }
  std::vector<PassMember*> members() override { return {this}; }
  std::size_t result_bytes() const override { return 0; }
  void download(Stream&) override {}
  void collect() override {}

 private:
  void begin(ops::OpContext&) override {}
  void run_unit(std::size_t, ops::OpContext& context) override {
    if (!context.is_planning() && ++visits_ == break_at_) fail(ErrorCode::cancelled, "broken off at {}", visits_);
  }
  void finish(ops::OpContext&) override {}

  const std::string name_ = "breaking";
  std::size_t break_at_;
  std::size_t visits_ = 0;
};

class StageRunnerFailures : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Offload, StageRunnerFailures, ::testing::Bool(),
                         [](const auto& streams) { return streams.param ? "streamed" : "resident"; });

/// A stage that breaks off anywhere in its passes leaves streams, parts and memory as they were, also where parts stay
/// on the device.
TEST_P(StageRunnerFailures, ABrokenOffPassLeavesNothingBehind) {
  const std::unique_ptr<Device> device = create_cpu_device();
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(ModelFolder::open(tiny_shapes()));
  const std::unique_ptr<Stream> compute = device->create_stream("compute");
  const std::unique_ptr<Stream> copy = device->create_stream("copy");
  PartHost host(*device, *compute, *copy, pipeline->parts(), {.stream = GetParam(), .poison_released = true});
  StageRunner runner(*device, *compute, host, pipeline->parts());
  const std::size_t idle = device->memory().use().used_bytes;
  for (const std::size_t break_at : {1, 2, 16, 17, 40, 48, 0}) {
    BreakingStage stage(break_at);
    const StageNeed need = runner.measure(stage);
    if (break_at > 0) {
      EXPECT_THROW(runner.run(stage, need, {}), Error) << break_at;
    } else {
      const StageReport report = runner.run(stage, need, {});
      EXPECT_EQ(report.statistics.passes, 3U);
      for (const UnitStatistics& unit : report.statistics.units[0]) EXPECT_EQ(unit.visits, 3U);
      EXPECT_EQ(report.statistics.demand_fetches + report.statistics.discarded_fetches, 0U);
    }
    EXPECT_EQ(device->memory().use().used_bytes, idle);
    const std::vector<Parameter*>& parameters = pipeline->parts()[kTransformer].parameters;
    for (const StreamUnit& unit : pipeline->parts()[kTransformer].plan.stacks[0].units)
      for (const ParameterGroup& group : unit.groups)
        for (const Parameter* parameter : parameters) {
          if (parameter->name() != group.runtime.name) continue;
          EXPECT_TRUE(parameter->is_placeholder()) << group.runtime.name;
        }
  }
}

/// The head of a pass is on its way while the end of the one before computes.
TEST(StageRunnerOrder, PassesAreAnnouncedAhead) {
  const std::unique_ptr<Device> device =
      create_cpu_device({.virtual_cost = [](std::string_view, std::string_view work, std::size_t) {
        return std::chrono::nanoseconds(work == "poison" ? 1000 : work == "fetch unit" ? 10 : 0);
      }});
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(ModelFolder::open(tiny_shapes()));
  const std::unique_ptr<Stream> compute = device->create_stream("compute");
  const std::unique_ptr<Stream> copy = device->create_stream("copy");
  PartHost host(*device, *compute, *copy, pipeline->parts(),
                {.stream = true, .poison_released = true, .record_timeline = true});
  StageRunner runner(*device, *compute, host, pipeline->parts());
  BreakingStage stage(0);
  const StageReport report = runner.run(stage, runner.measure(stage), {});
  ASSERT_EQ(report.timeline.size(), 3U * 16);
  for (const std::size_t pass : {1, 2}) {
    const VisitTiming& head = report.timeline[pass * 16];
    const VisitTiming& tail = report.timeline[pass * 16 - 1];
    EXPECT_EQ(head.pass, pass);
    EXPECT_LT(head.copy_end, tail.compute_end);
    EXPECT_EQ(head.stall.count(), 0);
  }
}

}  // namespace
}  // namespace lamina::test
