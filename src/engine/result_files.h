#pragma once

#include "base/file.h"
#include "lamina/generate.h"

namespace lamina {

/// `write_png` and `write_tensors` into files that were opened, and so proven writable, before the work began. Both
/// commit.
void write_png(AtomicFile file, const GenerateResult& result);
void write_tensors(AtomicFile file, const GenerateResult& result);

}  // namespace lamina
