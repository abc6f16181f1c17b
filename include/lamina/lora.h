#pragma once

#include <string>

namespace lamina {

/// A LoRA file that is merged into the transformer's weights.
struct Lora {
  std::string file;
  float scale = 1.0F;  ///< multiplies what the file adds, beside its own scale

  bool operator==(const Lora&) const = default;
};

}  // namespace lamina
