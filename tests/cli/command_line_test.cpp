#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/cli_fixture.h"

namespace lamina::test {
namespace {

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

TEST_F(Cli, AnUnknownCommandIsNamedBeforeItsArguments) {
  expect_refused(run_lamina({"gen", kModel, "--prompt", "x"}), {"no command 'gen'", "generate", "inspect", "synth"});
}

TEST_F(Cli, AValueThatIsMissingIsEmptyNotTheNextFlag) {
  const Outcome outcome =
      run_lamina({"generate", kModel, "--prompt=", "--enable-distributed-layerwise-offload", "--num-inference-steps=1",
                  "--height=32", "--width=32", "--output", file("x.png"), "--report", file("x.json")});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(read_json_file(file("x.json")).at("configuration").at("offload"), "dlo");
  EXPECT_EQ(read_json_file(file("x.json")).at("settings").at("prompt"), "");
  expect_refused(run_lamina(generate({"--output", file("y.png"), "--seed=", "--report", file("y.json")})), {"--seed"});
  expect_refused(run_lamina(generate({"--output=", "--seed", "3"})), {"--output"});
}

TEST_F(Cli, ClosedDescriptorsSpoilNoFile) {
  ASSERT_EQ(run_lamina(generate({"--seed", "3", "--output", file("whole.png")})).exit_code, 0);
  for (const int closed : {STDERR_FILENO, STDIN_FILENO}) {
    ASSERT_EQ(run_lamina(generate({"--seed", "3", "--output", file("a.png")}), [&] { ::close(closed); }).exit_code, 0);
    EXPECT_EQ(read_text_file(file("a.png")), read_text_file(file("whole.png"))) << closed;
  }
  EXPECT_EQ(run_lamina(generate({"--seed", "3", "--output", file("b.png")}), [] { ::close(STDOUT_FILENO); }).exit_code,
            2);
  EXPECT_EQ(read_text_file(file("b.png")), read_text_file(file("whole.png")));
}

TEST_F(Cli, NoOutputIsWrittenOverAnInput) {
  fs::copy(kModel, folder_ / "model", fs::copy_options::recursive);
  const std::string weights = file("model/transformer/diffusion_pytorch_model.safetensors");
  fs::create_symlink(weights, folder_ / "link.json");
  fs::create_hard_link(file("model/model_index.json"), folder_ / "same.png");
  std::ofstream(folder_ / "prompts.txt") << "x\n";
  const auto refused = [&](const std::vector<std::string>& more, const std::vector<std::string>& parts) {
    expect_refused(run_lamina(generate(more, file("model"))), parts);
  };
  refused({"--output", file("x.png"), "--save-tensors", weights}, {"--save-tensors", "the model", weights});
  refused({"--output", file("x.png"), "--report", file("link.json")}, {"--report", "the model"});
  refused({"--output", file("same.png")}, {"--output", "the model"});
  ASSERT_EQ(run_lamina({"generate", kModel, "--prompt", "x", "--height", "64", "--width", "64", "--num-inference-steps",
                        "1", "--output", file("photo.png")})
                .exit_code,
            0);
  refused({"--image", file("photo.png"), "--output", file("photo.png")}, {"--output", "--image"});
  expect_refused(run_lamina({"generate", kModel, "--prompts", file("prompts.txt"), "--output", file("x.png"),
                             "--report", file("prompts.txt")}),
                 {"--report", "--prompts"});
  EXPECT_EQ(read_text_file(file("prompts.txt")), "x\n");
}

TEST_F(Cli, FilesOfPromptsAreReadByTheirLines) {
  const auto refused = [&](const std::string& content, const std::vector<std::string>& parts) {
    std::ofstream(folder_ / "prompts.txt") << content;
    expect_refused(run_lamina({"generate", kModel, "--prompts", file("prompts.txt"), "--output", file("x.png")}),
                   parts);
  };
  refused("a\rb\r\nc\xFF\n", {"prompts.txt: line 3", "UTF-8", "byte 1"});
  refused("\u00A0\n\u3000 \t\r", {"no prompt"});
}

}  // namespace
}  // namespace lamina::test
