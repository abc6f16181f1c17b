#include "pipelines/flow_match.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/config_reader.h"
#include "base/error.h"
#include "pipelines/beta_distribution.h"

namespace lamina {
namespace {

void check_supported(const ConfigReader& config) {
  const std::string name = config.text("_class_name");
  if (name != "FlowMatchEulerDiscreteScheduler")
    config.reject("_class_name", fmt::format("found '{}'; FlowMatchEulerDiscreteScheduler is expected", name));
  if (config.boolean_or("use_flow_sigmas", false))
    config.reject("use_flow_sigmas", "found true; only false is supported");
}

bool has_linear_shift(const ConfigReader& config) {
  const std::string type = config.text_or("time_shift_type", "exponential");
  if (type != "exponential" && type != "linear")
    config.reject("time_shift_type", fmt::format("found '{}'; 'exponential' or 'linear' is expected", type));
  return type == "linear";
}

/// `count` values from `first` to `last`, as numpy.linspace computes them.
std::vector<double> even_values(double first, double last, std::size_t count) {
  const double increment = count > 1 ? (last - first) / static_cast<double>(count - 1) : 0.0;
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i) * increment + first);
  if (count > 1) values.back() = last;
  return values;
}

/// The request's sigmas, or evenly spaced ones from 1 to 1 / steps.
std::vector<float> base_sigmas(std::int64_t steps, std::span<const double> given) {
  const auto count = static_cast<std::size_t>(steps);
  if (given.empty()) {
    const std::vector<double> even = even_values(1.0, 1.0 / static_cast<double>(steps), count);
    return {even.begin(), even.end()};
  }
  if (given.size() != count)
    fail(ErrorCode::invalid_argument, "{} sigmas for {} inference steps; one for each step is expected", given.size(),
         steps);
  for (const double sigma : given)
    if (!(sigma >= 0 && sigma <= 1))
      fail(ErrorCode::invalid_argument, "a sigma of {}; noise levels from 0 to 1 are expected", sigma);
  return {given.begin(), given.end()};
}

/// Stretches the sigmas so that the last one becomes `terminal`.
void stretch_to(float terminal, std::vector<float>& sigmas) {
  const float scale = (1.0F - sigmas.back()) / (1.0F - terminal);
  for (float& sigma : sigmas) sigma = 1.0F - (1.0F - sigma) / scale;
}

std::vector<float> karras_sigmas(double first, double last, std::size_t count) {
  constexpr double kRho = 7.0;
  const double first_root = std::pow(first, 1 / kRho);
  const double last_root = std::pow(last, 1 / kRho);
  std::vector<float> sigmas;
  for (const double at : even_values(0.0, 1.0, count))
    sigmas.push_back(static_cast<float>(std::pow(first_root + at * (last_root - first_root), kRho)));
  return sigmas;
}

std::vector<float> exponential_sigmas(double first, double last, std::size_t count) {
  std::vector<float> sigmas;
  for (const double exponent : even_values(std::log(first), std::log(last), count))
    sigmas.push_back(static_cast<float>(std::exp(exponent)));
  return sigmas;
}

std::vector<float> beta_sigmas(double first, double last, std::size_t count) {
  constexpr double kAlphaAndBeta = 0.6;
  std::vector<float> sigmas;
  for (const double at : even_values(0.0, 1.0, count))
    sigmas.push_back(static_cast<float>(last + beta_quantile(1.0 - at, kAlphaAndBeta, kAlphaAndBeta) * (first - last)));
  return sigmas;
}

}  // namespace

FlowMatchScheduler FlowMatchScheduler::load(const std::filesystem::path& folder) {
  const ConfigReader config = ConfigReader::read(folder / "scheduler_config.json");
  check_supported(config);
  FlowMatchScheduler scheduler;
  scheduler.dynamic_shift_ = config.boolean_or("use_dynamic_shifting", false);
  scheduler.linear_shift_ = has_linear_shift(config);
  scheduler.inverted_ = config.boolean_or("invert_sigmas", false);
  scheduler.adds_noise_ = config.boolean_or("stochastic_sampling", false);
  scheduler.shift_ = config.number_or("shift", 1.0);
  if (scheduler.shift_ <= 0)
    config.reject("shift", fmt::format("found {}; a positive number is expected", scheduler.shift_));
  scheduler.shift_terminal_ = config.number_or("shift_terminal", 0);
  if (scheduler.shift_terminal_ < 0 || scheduler.shift_terminal_ >= 1)
    config.reject("shift_terminal",
                  fmt::format("found {}; a noise level from 0 to below 1 is expected", scheduler.shift_terminal_));
  for (const auto& [field, spacing] : {std::pair("use_karras_sigmas", Spacing::karras),
                                       {"use_exponential_sigmas", Spacing::exponential},
                                       {"use_beta_sigmas", Spacing::beta}}) {
    if (!config.boolean_or(field, false)) continue;
    if (scheduler.spacing_ != Spacing::as_given)
      config.reject(field, "two kinds of sigmas are asked for; one is legal");
    scheduler.spacing_ = spacing;
  }
  scheduler.train_timesteps_ = config.integer_or("num_train_timesteps", 1000, 1, 1'000'000);
  return scheduler;
}

float FlowMatchScheduler::shift(float sigma, double mu) const {
  if (!dynamic_shift_) return static_cast<float>(shift_) * sigma / (1.0F + static_cast<float>(shift_ - 1.0) * sigma);
  const auto weight = static_cast<float>(linear_shift_ ? mu : std::exp(mu));
  return weight / (weight + (1.0F / sigma - 1.0F));
}

FlowMatchSchedule FlowMatchScheduler::schedule(std::int64_t image_tokens, std::int64_t steps,
                                               std::span<const double> given) const {
  expects(image_tokens > 0, "a schedule for {} image tokens", image_tokens);
  if (steps < 1 || steps > train_timesteps_)
    fail(ErrorCode::invalid_argument, "{} inference steps; 1 to {} are allowed", steps, train_timesteps_);
  FlowMatchSchedule schedule{.mu = empirical_mu(image_tokens, steps), .adds_noise = adds_noise_};
  std::vector<float>& sigmas = schedule.sigmas;
  sigmas = base_sigmas(steps, given);
  for (float& sigma : sigmas) sigma = shift(sigma, schedule.mu);
  if (shift_terminal_ != 0) stretch_to(static_cast<float>(shift_terminal_), sigmas);
  const double first = sigmas.front();
  const double last = sigmas.back();
  if (spacing_ == Spacing::karras) sigmas = karras_sigmas(first, last, sigmas.size());
  if (spacing_ == Spacing::exponential) sigmas = exponential_sigmas(first, last, sigmas.size());
  if (spacing_ == Spacing::beta) sigmas = beta_sigmas(first, last, sigmas.size());
  if (!std::ranges::all_of(sigmas, [](float sigma) { return std::isfinite(sigma); }))
    fail(ErrorCode::invalid_argument,
         "the scheduler makes no finite noise levels of {} steps{}; take more steps, or sigmas above 0", steps,
         given.empty() ? "" : " and these sigmas");
  for (float& sigma : sigmas) {
    if (inverted_) sigma = 1.0F - sigma;
    schedule.timesteps.push_back(sigma * static_cast<float>(train_timesteps_));
  }
  sigmas.push_back(inverted_ ? 1.0F : 0.0F);
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
