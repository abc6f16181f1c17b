#include "pipelines/beta_distribution.h"

#include <cmath>

namespace lamina {
namespace {

/// The continued fraction of the regularised incomplete beta function, by Lentz's method. Converges quickly for x below
/// (a + 1) / (a + b + 2). Source: NIST Digital Library of Mathematical Functions, 8.17.22.
double continued_fraction(double x, double a, double b) {
  constexpr int kMostTerms = 300;
  constexpr double kTiny = 1e-300;
  constexpr double kPrecision = 1e-16;
  const auto away_from_zero = [](double value) { return std::fabs(value) < kTiny ? kTiny : value; };
  double c = 1.0;
  double d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
  double result = d;
  for (int m = 1; m <= kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1.0 / away_from_zero(1.0 + even * d);
    c = away_from_zero(1.0 + even / c);
    result *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1.0 / away_from_zero(1.0 + odd * d);
    c = away_from_zero(1.0 + odd / c);
    result *= d * c;
    if (std::fabs(d * c - 1.0) < kPrecision) break;
  }
  return result;
}

/// The distribution function.
double beta_probability(double x, double a, double b) {
  if (x > (a + 1.0) / (a + b + 2.0)) return 1.0 - beta_probability(1.0 - x, b, a);
  if (x <= 0.0) return 0.0;
  const double complete = std::tgamma(a) * std::tgamma(b) / std::tgamma(a + b);
  return std::pow(x, a) * std::pow(1.0 - x, b) / (a * complete) * continued_fraction(x, a, b);
}

}  // namespace

double beta_quantile(double probability, double alpha, double beta) {
  constexpr int kHalvings = 200;  // down to the smallest doubles near 0, where the density is infinite
  if (probability <= 0.0) return 0.0;
  if (probability >= 1.0) return 1.0;
  double low = 0.0;
  double high = 1.0;
  for (int i = 0; i < kHalvings && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle == low || middle == high) break;
    (beta_probability(middle, alpha, beta) < probability ? low : high) = middle;
  }
  return low + (high - low) / 2;
}

}  // namespace lamina
