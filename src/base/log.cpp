#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace lamina {

void setup_logging(spdlog::level::level_enum level, const std::string& name) {
  auto logger = std::make_shared<spdlog::logger>("lamina", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("[" + name + "] %^%l%$: %v");
  logger->set_level(level);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace lamina
