#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace lamina {
namespace {

constexpr std::size_t kWidth = 30;

std::string describe(const Progress& progress) {
  const std::size_t filled = kWidth * progress.pass / progress.passes;
  return fmt::format("{:<13} [{:<{}}] {:>3}/{} {:6.3f} s/step, stall {:4.1f} %", progress.stage,
                     std::string(filled, '='), kWidth, progress.pass, progress.passes, progress.seconds_per_pass,
                     100 * progress.stall_share);
}

}  // namespace

ProgressBar::ProgressBar() : is_terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (line_open_) std::fputc('\n', stderr);
}

void ProgressBar::show(const Progress& progress) {
  const bool done = progress.pass == progress.passes;
  if (!is_terminal_ && !done) return;
  // Not fmt::print, which throws: a stderr that takes no more must not end the run.
  std::fputs(fmt::format("{}{}{}", is_terminal_ ? "\r" : "", describe(progress), done ? "\n" : "").c_str(), stderr);
  line_open_ = !done;
  std::fflush(stderr);
}

}  // namespace lamina
