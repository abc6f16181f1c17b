#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/cli_fixture.h"

namespace lamina::test {
namespace {

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

}  // namespace
}  // namespace lamina::test
