#pragma once

#include "comm/communicator.h"

namespace lamina {

/// The ranks that work on one sample with this one; null where that group is the rank alone. Both outlive the pipeline.
/// Their collectives are enqueued on the compute stream of the pass.
struct ModelGroups {
  Communicator* tensor = nullptr;    ///< ranks that hold different weights and the same tokens
  Communicator* sequence = nullptr;  ///< ranks that hold the same weights and different tokens
};

}  // namespace lamina
