#pragma once

#include <optional>
#include <string>

#include "base/config_reader.h"
#include "weights/checkpoint.h"

namespace lamina {

/// Compares the dtype that a component's configuration names, "dtype" or "torch_dtype" in older ones, with its tensors.
/// The file decides in any case, for it holds the bytes that run. One sentence for a warning where no tensor has the
/// named dtype; nullopt where one has, and where none is named. Throws incompatible where the field is no string.
std::optional<std::string> dtype_disagreement(const ConfigReader& config, const Checkpoint& checkpoint);

}  // namespace lamina
