#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace lamina {

/// When a flow-matching model is asked and how far each Euler step goes: step i evaluates the model at timesteps[i] and
/// goes from noise level sigmas[i] to sigmas[i + 1].
struct FlowMatchSchedule {
  double mu = 0;                 ///< shift exponent
  std::vector<float> sigmas;     ///< steps + 1 noise levels; the last is 0, or 1 where the checkpoint inverts them
  std::vector<float> timesteps;  ///< steps, the sigmas times num_train_timesteps
  /// Each step takes the noise away whole and adds fresh noise of the next level, instead of moving along the velocity.
  bool adds_noise = false;
};

/// The flow-match Euler scheduler of a checkpoint. Immutable; thread safe.
/// Source: FlowMatchEulerDiscreteScheduler and the FLUX.2 pipeline of diffusers, with their float32 and float64 steps.
class FlowMatchScheduler {
 public:
  /// Reads scheduler_config.json in `folder`. Throws incompatible naming file and field for a schedule of another kind.
  static FlowMatchScheduler load(const std::filesystem::path& folder);

  /// `image_tokens` counts the target's tokens, references excluded. `sigmas`, where there are any, take the place of
  /// evenly spaced ones; they are shifted and converted likewise. Throws invalid_argument for `steps` below 1 or above
  /// num_train_timesteps, for sigmas outside 0..1 or of another count than `steps`, and for a schedule that is not
  /// finite.
  FlowMatchSchedule schedule(std::int64_t image_tokens, std::int64_t steps, std::span<const double> sigmas = {}) const;

 private:
  enum class Spacing { as_given, karras, exponential, beta };
  FlowMatchScheduler() = default;

  float shift(float sigma, double mu) const;

  bool dynamic_shift_ = false;
  bool linear_shift_ = false;
  bool inverted_ = false;
  bool adds_noise_ = false;
  double shift_ = 1;
  double shift_terminal_ = 0;  ///< 0: none
  Spacing spacing_ = Spacing::as_given;
  std::int64_t train_timesteps_ = 1000;
};

/// FLUX.2's shift exponent, fitted to its training over picture sizes and step counts.
double empirical_mu(std::int64_t image_tokens, std::int64_t steps);

}  // namespace lamina
