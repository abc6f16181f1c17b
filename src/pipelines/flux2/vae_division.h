#pragma once

#include "lamina/vae_tiling.h"
#include "models/bands/band_runner.h"

namespace lamina {

/// Whether a stage of the VAE keeps what is between its layers in host memory.
class VaeDivision {
 public:
  explicit VaeDivision(VaeTiling asked)
      : may_divide_(asked == VaeTiling::automatic), is_divided_(asked == VaeTiling::on) {}

  /// See `Stage::divide`.
  bool divide() noexcept {
    if (!may_divide_ || is_divided_) return false;
    is_divided_ = true;
    return true;
  }
  bool is_divided() const noexcept { return is_divided_; }
  BandOptions options() const noexcept { return {.place = is_divided_ ? MapPlace::host : MapPlace::device}; }

 private:
  bool may_divide_;
  bool is_divided_;
};

}  // namespace lamina
