#include "pipelines/flow_match.h"

#include <cmath>
#include <string_view>

#include "base/config_reader.h"
#include "base/error.h"

namespace lamina {
namespace {

void check_supported(const ConfigReader& config) {
  const std::string name = config.text("_class_name");
  if (name != "FlowMatchEulerDiscreteScheduler")
    config.reject("_class_name", fmt::format("found '{}'; FlowMatchEulerDiscreteScheduler is expected", name));
  for (const std::string_view field : {"use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas",
                                       "use_flow_sigmas", "invert_sigmas", "stochastic_sampling"})
    if (config.boolean_or(field, false)) config.reject(field, "found true; only false is supported");
  if (config.number_or("shift_terminal", 0) != 0) config.reject("shift_terminal", "only null is supported");
  const std::string type = config.text_or("time_shift_type", "exponential");
  if (type != "exponential")
    config.reject("time_shift_type", fmt::format("found '{}'; only 'exponential' is supported", type));
}

/// linspace(1, 1 / steps, steps), computed in double.
std::vector<float> base_sigmas(std::int64_t steps) {
  const double last = 1.0 / static_cast<double>(steps);
  const double increment = steps > 1 ? (last - 1.0) / static_cast<double>(steps - 1) : 0.0;
  std::vector<float> sigmas;
  for (std::int64_t i = 0; i < steps; ++i)
    sigmas.push_back(static_cast<float>(static_cast<double>(i) * increment + 1.0));
  if (steps > 1) sigmas.back() = static_cast<float>(last);
  return sigmas;
}

float shift_dynamically(float sigma, double mu) {
  const auto exp_mu = static_cast<float>(std::exp(mu));
  return exp_mu / (exp_mu + (1.0F / sigma - 1.0F));
}

float shift_statically(float sigma, double shift) {
  return static_cast<float>(shift) * sigma / (1.0F + static_cast<float>(shift - 1.0) * sigma);
}

}  // namespace

FlowMatchScheduler FlowMatchScheduler::load(const std::filesystem::path& folder) {
  const ConfigReader config = ConfigReader::read(folder / "scheduler_config.json");
  check_supported(config);
  FlowMatchScheduler scheduler;
  scheduler.dynamic_shift_ = config.boolean_or("use_dynamic_shifting", false);
  scheduler.shift_ = config.number_or("shift", 1.0);
  if (scheduler.shift_ <= 0)
    config.reject("shift", fmt::format("found {}; a positive number is expected", scheduler.shift_));
  scheduler.train_timesteps_ = config.integer_or("num_train_timesteps", 1000, 1, 1'000'000);
  return scheduler;
}

FlowMatchSchedule FlowMatchScheduler::schedule(std::int64_t image_tokens, std::int64_t steps) const {
  expects(image_tokens > 0, "a schedule for {} image tokens", image_tokens);
  if (steps < 1 || steps > train_timesteps_)
    fail(ErrorCode::invalid_argument, "{} inference steps; 1 to {} are allowed", steps, train_timesteps_);
  FlowMatchSchedule schedule;
  schedule.mu = empirical_mu(image_tokens, steps);
  schedule.sigmas = base_sigmas(steps);
  for (float& sigma : schedule.sigmas) {
    sigma = dynamic_shift_ ? shift_dynamically(sigma, schedule.mu) : shift_statically(sigma, shift_);
    schedule.timesteps.push_back(sigma * static_cast<float>(train_timesteps_));
  }
  schedule.sigmas.push_back(0.0F);
  return schedule;
}

double empirical_mu(std::int64_t image_tokens, std::int64_t steps) {
  constexpr double kManyTokens = 4300;
  const auto tokens = static_cast<double>(image_tokens);
  const double mu_at_200_steps = 0.00016927 * tokens + 0.45666666;
  if (tokens > kManyTokens) return mu_at_200_steps;
  const double mu_at_10_steps = 8.73809524e-05 * tokens + 1.89833333;
  const double slope = (mu_at_200_steps - mu_at_10_steps) / 190.0;
  return slope * static_cast<double>(steps) + (mu_at_200_steps - 200.0 * slope);
}

}  // namespace lamina
