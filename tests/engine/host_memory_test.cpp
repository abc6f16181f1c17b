#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>

#include "base/bytes.h"
#include "base/json.h"
#include "engine/engine_fixture.h"
#include "engine/residency/host_backing.h"
#include "engine/residency/host_need.h"
#include "lamina/engine.h"
#include "offload/mapped_source.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<HostMemoryBudget> host_budget(std::optional<std::size_t> limit_bytes) {
  return std::make_shared<HostMemoryBudget>(limit_bytes, "/no/such/root");
}

std::vector<MemoryNeed> need_of(const OffloadOptions& options) {
  const auto pipeline = open_pipeline(ModelFolder::open(tiny_shapes()));
  return loading_need(pipeline->parts(), plan_host_weights(pipeline->parts(), options), options.residency());
}

Error refusal(const OffloadOptions& options, const std::shared_ptr<HostMemoryBudget>& budget) {
  try {
    make_generator(tiny_shapes(), options, {.host_memory = budget});
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("the model was loaded");
}

MemoryPart part(const MemoryUse& use, std::string_view name) {
  for (const MemoryPart& part : use.parts)
    if (part.name == name) return part;
  return {};
}

class HostMemory : public ::testing::TestWithParam<bool> {
 protected:
  OffloadOptions options() const { return {.stream = GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(Offload, HostMemory, ::testing::Bool(),
                         [](const auto& streams) { return streams.param ? "streamed" : "resident"; });

TEST_P(HostMemory, LoadingTakesExactlyWhatThePlansSay) {
  const std::size_t need = total_bytes(need_of(options()));
  const auto budget = host_budget(need);
  {
    const auto generator = make_generator(tiny_shapes(), options(), {.host_memory = budget});
    EXPECT_EQ(budget->use().peak_bytes, need);
    EXPECT_EQ(budget->use().used_bytes, generator->device().pinned_bytes());
  }
  EXPECT_EQ(budget->use().used_bytes, 0U);
}

TEST_P(HostMemory, ALimitBelowTheNeedRefusesBeforeAnyAllocation) {
  const std::size_t need = total_bytes(need_of(options()));
  const auto budget = host_budget(need - 1);
  const Error error = refusal(options(), budget);
  EXPECT_EQ(error.code(), ErrorCode::out_of_host_memory);
  EXPECT_THAT(error.message(), HasSubstr(format_size(need) + " asked for loading the model ("));
  for (const char* text : {"staging ", "nothing yet", "allowed by --host-memory-limit", "raise the limit"})
    EXPECT_THAT(error.message(), HasSubstr(text));
  EXPECT_EQ(error.message().find("weights ") != std::string::npos, GetParam()) << error.message();
  EXPECT_EQ(budget->use().peak_bytes, 0U);
}

TEST_P(HostMemory, AControlGroupBelowTheNeedRefusesBeforeAnyAllocation) {
  const ScratchFolder root;
  const std::filesystem::path group = root.path() / "sys/fs/cgroup/job";
  std::filesystem::create_directories(group);
  std::filesystem::create_directories(root.path() / "proc/self");
  std::ofstream(root.path() / "proc/self/cgroup") << "0::/job\n";
  std::ofstream(group / "memory.max") << total_bytes(need_of(options())) + 1000 << "\n";
  std::ofstream(group / "memory.current") << "1001\n";
  const auto budget = std::make_shared<HostMemoryBudget>(std::nullopt, root.path());
  const Error error = refusal(options(), budget);
  EXPECT_EQ(error.code(), ErrorCode::out_of_host_memory);
  EXPECT_THAT(error.message(), HasSubstr("job/memory.max"));
  EXPECT_EQ(budget->use().peak_bytes, 0U);

  std::ofstream(group / "memory.current") << "1000\n";
  EXPECT_NO_THROW(make_generator(tiny_shapes(), options(), {.host_memory = budget}));
}

TEST(HostMemoryOfBackings, MappedWeightsFitWherePrivateOnesAreRefused) {
  OffloadOptions own{.stream = true, .host_backing = HostBackingChoice::private_pages};
  const std::size_t mapped_need = total_bytes(need_of({.stream = true}));
  ASSERT_LT(mapped_need, total_bytes(need_of(own)));
  const auto budget = host_budget(mapped_need);
  EXPECT_THAT(refusal(own, budget).message(), HasSubstr("with --dlo-host-backing mapped"));
  EXPECT_EQ(budget->use().peak_bytes, 0U);
  EXPECT_NO_THROW(make_generator(tiny_shapes(), {.stream = true}, {.host_memory = budget}));
  for (const HostBackingChoice backing : {HostBackingChoice::automatic, HostBackingChoice::mapped})
    EXPECT_THAT(refusal({.stream = true, .host_backing = backing}, host_budget(1)).message(),
                Not(HasSubstr("--dlo-host-backing")))
        << "it is mapped already";
}

TEST(HostMemoryOfRequests, ResultsFitExactlyOrAreRefusedBeforeAnythingRuns) {
  const auto measured = host_budget(std::nullopt);
  std::size_t results = 0;
  {
    const auto generator = make_generator(tiny_shapes(), {.stream = true}, {.host_memory = measured});
    const std::size_t idle = measured->use().used_bytes;
    generator->generate(small_request());
    for (const StageReport& stage : generator->stage_reports()) results += stage.need.result_bytes;
    EXPECT_EQ(part(measured->use(), "results").peak_bytes, results);
    EXPECT_EQ(measured->use().used_bytes, idle);
  }
  const std::size_t all = total_bytes(need_of({.stream = true})) + results;
  EXPECT_EQ(measured->use().peak_bytes, all);
  make_generator(tiny_shapes(), {.stream = true}, {.host_memory = host_budget(all)})->generate(small_request());

  const auto tight = make_generator(tiny_shapes(), {.stream = true}, {.host_memory = host_budget(all - 1)});
  try {
    tight->generate(small_request(), [](const Progress&) { ADD_FAILURE() << "a stage ran"; });
    FAIL() << "the results were booked beyond the limit";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_host_memory);
    EXPECT_THAT(error.message(), HasSubstr("asked for the request (results "));
  }
}

TEST(HostMemoryReport, TellsBudgetAndProcess) {
  const auto generator = make_generator(tiny_shapes(), {.stream = true}, {.host_memory = host_budget(kGiB)});
  const Json hidden = parse_json(generator->generate(small_request()).report_json, "report").at("host");
  EXPECT_EQ(hidden.at("budget").at("limit_bytes"), kGiB);
  const auto pipeline = open_pipeline(ModelFolder::open(tiny_shapes()));
  const std::size_t mapped_staging = MappedSource::staging_bytes(pipeline->parts()[1].plan);
  EXPECT_EQ(hidden.at("budget").at("parts").at("weights").at("used_bytes").get<std::size_t>() + mapped_staging,
            hidden.at("weight_bytes").get<std::size_t>());
  EXPECT_EQ(hidden.at("budget").at("used_bytes"), hidden.at("pinned_bytes"));
  EXPECT_TRUE(hidden.at("process").is_null()) << "nothing stands at the injected root";

  const auto real = make_generator(tiny_shapes(), {.stream = true});
  const Json shown = parse_json(real->generate(small_request()).report_json, "report").at("host");
  EXPECT_TRUE(shown.at("budget").at("limit_bytes").is_null());
  if (shown.at("process").is_null()) GTEST_SKIP() << "no smaps_rollup on this machine";
  EXPECT_GE(shown.at("process").at("private_dirty_bytes").get<std::size_t>(),
            shown.at("weight_bytes").get<std::size_t>());
}

TEST(HostMemoryReport, InspectShowsWhatLoadingTakes) {
  const EngineConfig config{
      .model = tiny_shapes().string(), .host_memory_bytes = 123 * kMiB, .enable_distributed_layerwise_offload = true};
  const Inspection inspection = inspect(config, {.memory = true});
  for (const char* text : {"loading takes weights ", "staging ", "123.0 MiB allowed", "available ", "private dirty ",
                           "shared (mapped) ", "PSS ", "pinned "})
    EXPECT_THAT(inspection.text, HasSubstr(text));
  const Json host = parse_json(inspection.json, "inspection").at("host");
  for (const MemoryNeed& need : need_of({.stream = true}))
    EXPECT_EQ(host.at("loading").at(need.part + "_bytes"), need.size_bytes);
  EXPECT_TRUE(host.at("refusal").is_null());
  EXPECT_THAT(inspection.text, Not(HasSubstr("does not fit")));
  EXPECT_EQ(inspect(config).text.find("host memory"), std::string::npos);
}

TEST(HostMemoryReport, InspectSaysWhereLoadingDoesNotFit) {
  const std::size_t need = total_bytes(need_of({.stream = true}));
  const EngineConfig config{.model = tiny_shapes().string(),
                            .device = "cpu",
                            .host_memory_bytes = need - 1,
                            .enable_distributed_layerwise_offload = true};
  const Inspection inspection = inspect(config, {.memory = true});
  EXPECT_THAT(inspection.text, HasSubstr("does not fit: "));
  const std::string refusal = parse_json(inspection.json, "inspection").at("host").at("refusal");
  for (const std::string& text :
       {format_size(need) + " asked for loading the model", format_size(need - 1) + " allowed by --host-memory-limit"})
    EXPECT_THAT(refusal, HasSubstr(text));
}

/// What `auto` means depends on the device, whether it is there or not.
TEST(HostMemoryReport, InspectTellsTheBackingOfTheDeviceAskedFor) {
  const auto backing = [](const std::string& device, std::optional<std::size_t> limit) {
    const EngineConfig config{.model = tiny_shapes().string(),
                              .device = device,
                              .host_memory_bytes = limit,
                              .enable_distributed_layerwise_offload = true};
    const Json inspection = parse_json(inspect(config).json, "inspection");
    for (const Json& part : inspection.at("parts"))
      if (part.at("component") == "transformer") return part.at("host_weights").at("backing").get<std::string>();
    return std::string("no transformer");
  };
  EXPECT_EQ(backing("cpu", std::nullopt), "checkpoint mmap");
  EXPECT_EQ(backing("cuda", std::nullopt), "private pinned");
  EXPECT_EQ(
      backing("cuda", total_bytes(need_of({.stream = true, .host_backing = HostBackingChoice::private_pages})) - 1),
      "checkpoint mmap");
}

TEST(HostMemoryEngine, TakesTheLimitOfItsConfiguration) {
  try {
    const Engine engine({.model = tiny_shapes().string(), .host_memory_bytes = 1});
    FAIL() << "loaded within one byte";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_host_memory);
    EXPECT_THAT(error.message(), HasSubstr("1 B allowed by --host-memory-limit"));
  }
}

}  // namespace
}  // namespace lamina::test
