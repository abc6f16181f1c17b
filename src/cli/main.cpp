#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "cli/arguments.h"
#include "cli/bench_command.h"
#include "cli/generate_command.h"
#include "cli/inspect_command.h"
#include "cli/interruption.h"
#include "cli/standard_descriptors.h"
#include "cli/synth_command.h"
#include "comm/launched_process.h"
#include "lamina/engine.h"

namespace {

constexpr int kExitFailure = 1;
constexpr int kExitRefused = 2;

/// OpenMP threads spin between oneDNN's parallel regions unless told otherwise, and on a machine with other work that
/// costs twenty times the run (docs/performance.md). libgomp reads its environment before `main`, so the program has to
/// start once more. Where that fails it goes on as it is.
void restart_with_waiting_openmp_threads(char** argv) {
  constexpr const char* kVariable = "OMP_WAIT_POLICY";
  if (std::getenv(kVariable) != nullptr || ::setenv(kVariable, "passive", 0) != 0) return;
  ::execv("/proc/self/exe", argv);
  spdlog::warn("could not restart with {}=passive; other work on this machine may slow this run", kVariable);
}

/// "lamina", or "lamina, process 1" where a launcher started several.
std::string program_name() {
  try {
    const std::optional<lamina::LaunchedProcess> process = lamina::launched_process();
    if (process && process->count > 1) return fmt::format("lamina, process {}", process->index);
  } catch (const lamina::Error&) {  // whoever needs its place will say so
  }
  return "lamina";
}

/// One line, whatever a file put into the message. Where stderr takes nothing, the exit code alone tells.
void print_error(std::string_view code, std::string_view message) {
  constexpr std::size_t kMostBytes = 65'536;  // reasons of many requests make one message
  std::string line = lamina::printable(message, kMostBytes);
  for (char& character : line)
    if (character == '\n' || character == '\t') character = ' ';
  std::fputs(fmt::format("{}: {}: {}\n", program_name(), code, line).c_str(), stderr);
}

/// CLI11 would complain of all arguments at once, the last one first.
void check_command(const CLI::App& app, const std::vector<std::string>& reversed) {
  if (reversed.empty() || reversed.back().starts_with("-")) return;
  std::string known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == reversed.back()) return;
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  throw lamina::Error(lamina::ErrorCode::invalid_argument,
                      fmt::format("there is no command '{}'; the commands are {}", reversed.back(), known));
}

/// Errors of the caller's making exit with 2, failures of device or program with 1, a signal as shells count it.
int exit_code(lamina::ErrorCode code) {
  if (code == lamina::ErrorCode::cancelled && lamina::interruption() != 0) return 128 + lamina::interruption();
  return code == lamina::ErrorCode::device || code == lamina::ErrorCode::internal ? kExitFailure : kExitRefused;
}

int run(int argc, char** argv) {
  CLI::App app("Lamina runs diffusion transformers whose weights do not fit on the accelerator.", "lamina");
  app.set_version_flag("--version", lamina::version());
  app.require_subcommand(1);
  lamina::add_generate_command(app);
  lamina::add_inspect_command(app);
  lamina::add_bench_command(app);
  lamina::add_synth_command(app);
  std::vector<std::string> arguments = lamina::reversed_arguments(argc, argv);
  check_command(app, arguments);
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0)
      throw lamina::Error(lamina::ErrorCode::invalid_argument, fmt::format("{}; see lamina --help", error.what()));
    app.exit(error);  // --help, --version
  }
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout)
    throw lamina::Error(lamina::ErrorCode::unavailable, "cannot write to the standard output");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  lamina::take_closed_standard_descriptors();
  lamina::setup_logging(spdlog::level::info, program_name());
  restart_with_waiting_openmp_threads(argv);
  try {
    return run(argc, argv);
  } catch (const lamina::Error& error) {
    print_error(lamina::to_string(error.code()), error.message());
    return exit_code(error.code());
  } catch (const std::system_error& error) {  // of fmt, where the standard output cannot be written
    print_error(lamina::to_string(lamina::ErrorCode::unavailable), error.what());
    return kExitRefused;
  } catch (const std::exception& error) {
    print_error(lamina::to_string(lamina::ErrorCode::internal), error.what());
    return kExitFailure;
  }
}
