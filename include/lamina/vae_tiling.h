#pragma once

namespace lamina {

/// Whether the VAE works on pictures in tiles: in less memory, with slightly different results.
enum class VaeTiling {
  automatic,  ///< where a whole picture would not fit the device
  on,         ///< wherever a picture is larger than a tile
  off
};

}  // namespace lamina
