#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <string_view>

namespace lamina {
namespace {

constexpr std::size_t kWidth = 30;

std::string bar(std::string_view what, std::size_t done, std::size_t total) {
  return fmt::format("{:<13} [{:<{}}] {:>3}/{}", what, std::string(kWidth * done / total, '='), kWidth, done, total);
}

/// "0:07", "12:30", "1:02:03".
std::string format_clock(double seconds) {
  const auto whole = static_cast<long long>(std::ceil(seconds));
  const std::string minutes_and_seconds = fmt::format("{:02}:{:02}", whole / 60 % 60, whole % 60);
  if (whole >= 3600) return fmt::format("{}:{}", whole / 3600, minutes_and_seconds);
  return minutes_and_seconds.substr(minutes_and_seconds.front() == '0' ? 1 : 0);
}

std::string describe(const Progress& progress) {
  const double left = progress.seconds_per_pass * static_cast<double>(progress.passes - progress.pass);
  return fmt::format("{} {:6.3f} s/step, stall {:4.1f} %, {:>7} left",
                     bar(progress.stage, progress.pass, progress.passes), progress.seconds_per_pass,
                     100 * progress.stall_share, format_clock(left));
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
