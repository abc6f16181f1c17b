#pragma once

#include <cstddef>

#include "lamina/vae_tiling.h"

namespace lamina {

/// Whether a stage takes its picture in tiles.
class VaeDivision {
 public:
  /// `tiles` is how many the picture would be divided into, 1 where it is no larger than one.
  VaeDivision(VaeTiling asked, std::size_t tiles)
      : may_divide_(asked == VaeTiling::automatic && tiles > 1),
        is_divided_(asked == VaeTiling::on && tiles > 1),
        tiles_(tiles) {}

  /// See `Stage::divide`.
  bool divide() noexcept {
    if (!may_divide_ || is_divided_) return false;
    is_divided_ = true;
    return true;
  }
  bool is_divided() const noexcept { return is_divided_; }
  std::size_t tiles() const noexcept { return is_divided_ ? tiles_ : 1; }

 private:
  bool may_divide_;
  bool is_divided_;
  std::size_t tiles_;
};

}  // namespace lamina
