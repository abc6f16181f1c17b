#pragma once

#include <spdlog/spdlog.h>

namespace lamina {

/// Sends log lines to stderr ("[lamina] warning: ..."), so that stdout stays the commands' own. Call once in `main`.
void setup_logging(spdlog::level::level_enum level);

}  // namespace lamina
