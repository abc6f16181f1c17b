#pragma once

#include <cstddef>
#include <string>

#include "lamina/generate.h"

namespace lamina {

/// Draws the progress of stages on stderr: a bar that moves where stderr is a terminal, else one line for each stage
/// with passes when it is done.
class ProgressBar {
 public:
  ProgressBar();
  /// Ends an unfinished line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(const Progress& progress);
  /// Of a run of several requests: passes that their samples have gone through, and all that they take.
  void show_passes(std::size_t done, std::size_t total);

 private:
  void draw(const std::string& line, bool done);

  bool is_terminal_;
  bool line_open_ = false;
};

}  // namespace lamina
