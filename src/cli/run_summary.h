#pragma once

#include <string>

#include "lamina/generate.h"

namespace lamina {

/// A short table of what a run streamed and needed, from its report.
std::string summarize_run(const GenerateResult& result);

}  // namespace lamina
