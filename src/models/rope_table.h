#pragma once

#include <vector>

namespace lamina {

/// Cosines and sines of rotary position embeddings, on the host: [tokens, head_dim / 2] each, row-major, the angle of
/// every pair of features once. What `ops::qk_norm_rope` takes, after the caller has copied it to the device.
struct RopeTable {
  std::vector<float> cos;
  std::vector<float> sin;
};

}  // namespace lamina
