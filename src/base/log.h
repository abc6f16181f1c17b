#pragma once

#include <spdlog/spdlog.h>

#include <string>

namespace lamina {

/// Sends log lines to stderr ("[lamina] warning: ..."), so that stdout stays the commands' own. Call once in `main`;
/// `name` tells processes of one run apart.
void setup_logging(spdlog::level::level_enum level, const std::string& name = "lamina");

}  // namespace lamina
