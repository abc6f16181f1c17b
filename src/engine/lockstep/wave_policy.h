#pragma once

namespace lamina {

/// Which requests may share the passes of a group whose ranks gather weights together.
enum class WavePolicy {
  ragged,  ///< any: requests join and leave at every pass
  strict,  ///< those that start together, with the same number of steps, given explicitly
};

}  // namespace lamina
