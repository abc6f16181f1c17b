#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace lamina::test {

/// What mpirun and all that it started printed.
struct MpiRun {
  int exit_code = -1;
  std::string text;
};

/// Several processes under Open MPI's mpirun, on this machine, as any user.
class Mpirun {
 public:
  /// With `recovers`, mpirun lets the others go on when one fails, and each prints "process N exits with CODE".
  Mpirun(std::size_t processes, std::vector<std::string> command, bool recovers) {
    arguments_ = {LAMINA_MPIRUN, "--oversubscribe", "--bind-to", "none", "-np", std::to_string(processes)};
    if (recovers) {
      // mpirun may lose what a process printed last before another one ends badly, so all print past it.
      const std::string script = R"(exec >>"$LAMINA_MPIRUN_OUTPUT" 2>&1; "$@"; code=$?; )"
                                 R"(echo "process $OMPI_COMM_WORLD_RANK exits with $code"; exit $code)";
      arguments_.insert(arguments_.end(), {"--enable-recovery", "sh", "-c", script, "sh"});
    }
    arguments_.insert(arguments_.end(), command.begin(), command.end());
    start();
  }
  Mpirun(const Mpirun&) = delete;
  Mpirun& operator=(const Mpirun&) = delete;

  /// Blocks until all have ended; once.
  MpiRun wait() {
    int status = 0;
    ::waitpid(child_, &status, 0);
    MpiRun run{WIFEXITED(status) ? WEXITSTATUS(status) : -1, {}};
    std::array<char, 4096> buffer{};
    ::lseek(output_, 0, SEEK_SET);
    for (ssize_t count = 0; (count = ::read(output_, buffer.data(), buffer.size())) > 0;)
      run.text.append(buffer.data(), static_cast<std::size_t>(count));
    ::close(output_);
    ::unlink(path_.c_str());
    return run;
  }

 private:
  void start() {
    output_ = ::mkostemp(path_.data(), O_APPEND);
    child_ = ::fork();
    if (child_ != 0) return;
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(output_, STDOUT_FILENO);
    ::dup2(output_, STDERR_FILENO);
    ::setenv("LAMINA_MPIRUN_OUTPUT", path_.c_str(), 1);
    for (const char* variable : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      ::setenv(variable, "1", 1);
    ::setenv("LSAN_OPTIONS", "detect_leaks=0", 1);  // Open MPI does not free all of its memory
    std::vector<char*> argv;
    for (std::string& argument : arguments_) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv(LAMINA_MPIRUN, argv.data());
    ::_exit(127);
  }

  std::vector<std::string> arguments_;
  std::string path_ = std::filesystem::temp_directory_path() / "lamina-mpirun-XXXXXX";
  int output_ = -1;
  pid_t child_ = -1;
};

}  // namespace lamina::test
