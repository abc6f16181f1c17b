#include "cli/cli_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace lamina::test {
namespace {

std::string slurp(std::FILE* file) {
  std::rewind(file);
  std::string text;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file)) text.append(buffer.data(), count);
  return text;
}

}  // namespace

pid_t start_lamina(std::vector<std::string> arguments, const std::function<void()>& prepare) {
  arguments.insert(arguments.begin(), LAMINA_PROGRAM);
  const pid_t child = ::fork();
  if (child != 0) return child;
  if (prepare) prepare();
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv(LAMINA_PROGRAM, argv.data());
  ::_exit(127);
}

Outcome run_lamina(const std::vector<std::string>& arguments, const std::function<void()>& prepare) {
  std::FILE* out = std::tmpfile();
  std::FILE* err = std::tmpfile();
  const pid_t child = start_lamina(arguments, [&] {
    ::dup2(::fileno(out), STDOUT_FILENO);
    ::dup2(::fileno(err), STDERR_FILENO);
    ::close(::fileno(out));
    ::close(::fileno(err));
    if (prepare) prepare();
  });
  int status = 0;
  ::waitpid(child, &status, 0);
  Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out), slurp(err)};
  std::fclose(out);
  std::fclose(err);
  return outcome;
}

void expect_refused(const Outcome& outcome, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}));
}

void Cli::SetUp() {
  folder_ = fs::temp_directory_path() / ("lamina-cli-test-" + std::to_string(::getpid()));
  fs::remove_all(folder_);
  fs::create_directories(folder_);
}

void Cli::TearDown() {
  fs::remove_all(folder_);
}

std::vector<std::string> Cli::generate(const std::vector<std::string>& more, const std::string& model) const {
  std::vector<std::string> arguments{"generate", model,     "--prompt", "a red circle",          "--height",
                                     "32",       "--width", "32",       "--num-inference-steps", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace lamina::test
