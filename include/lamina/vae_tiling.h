#pragma once

namespace lamina {

/// Whether the VAE keeps what is between its layers in pinned host memory, and streams it in bands: in less memory of
/// the device and more time, with the same pixels.
enum class VaeTiling {
  automatic,  ///< where a picture would not fit the device otherwise
  on,
  off
};

}  // namespace lamina
