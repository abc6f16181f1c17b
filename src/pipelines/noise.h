#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <variant>
#include <vector>

#include "lamina/generate.h"
#include "pipelines/philox.h"
#include "tensor/dtype.h"

namespace lamina {

/// A random generator of PyTorch, freshly seeded, so that a seed gives the picture that users of PyTorch know. Of a CPU
/// generator only the low 32 bits of the seed count, as there. One thread at a time.
class NoiseGenerator {
 public:
  NoiseGenerator(GeneratorDevice device, std::uint64_t seed);

  /// What the next `torch.randn(count, dtype=...)` draws; each call but the last draws at least 16 values. Those of a
  /// CPU generator agree to the last bits of log, cos and sin in float32, exactly in bfloat16. Throws not_implemented
  /// for a dtype other than f32 and bf16.
  std::vector<float> draw(std::size_t count, DType dtype);

 private:
  std::variant<std::mt19937, PhiloxGenerator> generator_;
};

/// The first draw of a CPU generator.
std::vector<float> torch_randn(std::uint64_t seed, std::size_t count, DType dtype);

}  // namespace lamina
