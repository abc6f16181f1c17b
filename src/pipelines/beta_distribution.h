#pragma once

namespace lamina {

/// The value below which a beta-distributed variable stays with `probability` (0 to 1), to about 1e-14. `alpha` and
/// `beta` are positive. Thread safe.
double beta_quantile(double probability, double alpha, double beta);

}  // namespace lamina
