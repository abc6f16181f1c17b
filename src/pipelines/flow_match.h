#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace lamina {

/// When a flow-matching model is asked and how far each Euler step goes: step i evaluates the model at timesteps[i] and
/// moves the latents by (sigmas[i + 1] - sigmas[i]) times its velocity.
struct FlowMatchSchedule {
  double mu = 0;                 ///< shift exponent
  std::vector<float> sigmas;     ///< steps + 1 noise levels, from 1 down to 0
  std::vector<float> timesteps;  ///< steps, the sigmas times num_train_timesteps
};

/// The flow-match Euler scheduler of a checkpoint. Immutable; thread safe.
/// Source: FlowMatchEulerDiscreteScheduler and the FLUX.2 pipeline of diffusers, with their float32 and float64 steps.
class FlowMatchScheduler {
 public:
  /// Reads scheduler_config.json in `folder`. Throws incompatible naming file and field for a schedule of another kind.
  static FlowMatchScheduler load(const std::filesystem::path& folder);

  /// `image_tokens` counts the target's tokens, references excluded. Throws invalid_argument for `steps` below 1 or
  /// above num_train_timesteps.
  FlowMatchSchedule schedule(std::int64_t image_tokens, std::int64_t steps) const;

 private:
  FlowMatchScheduler() = default;

  bool dynamic_shift_ = false;
  double shift_ = 1;
  std::int64_t train_timesteps_ = 1000;
};

/// FLUX.2's shift exponent, fitted to its training over picture sizes and step counts.
double empirical_mu(std::int64_t image_tokens, std::int64_t steps);

}  // namespace lamina
