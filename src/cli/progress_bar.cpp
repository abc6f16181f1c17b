#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

namespace lamina {
namespace {

constexpr std::size_t kWidth = 30;

std::string bar(std::string_view what, std::size_t done, std::size_t total) {
  return fmt::format("{:<13} [{:<{}}] {:>3}/{}", what, std::string(kWidth * done / total, '='), kWidth, done, total);
}

std::string describe(const Progress& progress) {
  return fmt::format("{} {:6.3f} s/step, stall {:4.1f} %", bar(progress.stage, progress.pass, progress.passes),
                     progress.seconds_per_pass, 100 * progress.stall_share);
}

}  // namespace

ProgressBar::ProgressBar() : is_terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (line_open_) std::fputc('\n', stderr);
}

void ProgressBar::show(const Progress& progress) {
  draw(describe(progress), progress.pass == progress.passes);
}

void ProgressBar::show_passes(std::size_t done, std::size_t total) {
  if (total > 0) draw(bar("passes", done, total), done == total);
}

void ProgressBar::draw(const std::string& line, bool done) {
  if (!is_terminal_ && !done) return;
  // Not fmt::print, which throws: a stderr that takes no more must not end the run.
  std::fputs(fmt::format("{}{}{}", is_terminal_ ? "\r" : "", line, done ? "\n" : "").c_str(), stderr);
  line_open_ = !done;
  std::fflush(stderr);
}

}  // namespace lamina
