#pragma once

namespace lamina {

/// Which blocks a streaming engine keeps on the device.
enum class ResidentPolicy {
  leading,  ///< the first blocks in stack order, across block lists
  spread,   ///< evenly over the stack
};

}  // namespace lamina
