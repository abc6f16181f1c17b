#include "cli/inspect_command.h"

#include <fmt/format.h>

#include <memory>

#include "base/printable.h"
#include "cli/engine_flags.h"

namespace lamina {

void add_inspect_command(CLI::App& app) {
  struct Flags {
    EngineFlags engine;
    bool json = false;
    InspectOptions options;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App& command = *app.add_subcommand("inspect", "Show what a model holds, what would stream and what stays");
  flags->engine.add_to(command);
  flags->engine.add_device_choice_to(command);
  command.add_flag("--json", flags->json, "Print JSON");
  command.add_flag("--memory", flags->options.memory,
                   "Show the host memory that loading takes, its limits, and what this process uses");
  command.callback([flags] {
    const Inspection inspection = inspect(flags->engine.parsed(), flags->options);
    if (flags->json)
      fmt::print("{}\n", inspection.json);
    else
      fmt::print("{}", printable(inspection.text, inspection.text.size()));
  });
}

}  // namespace lamina
