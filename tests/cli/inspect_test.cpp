#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/cli_fixture.h"

namespace lamina::test {
namespace {

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

}  // namespace
}  // namespace lamina::test
