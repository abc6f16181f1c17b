#include "pipelines/beta_distribution.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

/// Recorded from scipy.stats.beta.ppf.
TEST(BetaDistribution, QuantilesAreScipys) {
  struct Quantile {
    double probability, of_06_06, of_2_5;
  };
  for (const Quantile& expected : {Quantile{1e-06, 1.8558824624053043e-10, 0.00025828782935406356},
                                   {0.01, 0.0008612388215429059, 0.026763191142755053},
                                   {0.1, 0.03958440558878085, 0.09259525891312873},
                                   {0.25, 0.17568037865269498, 0.16116291679032652},
                                   {0.5, 0.5000000000000001, 0.26444998329566005},
                                   {0.9, 0.9604155944112192, 0.5103163065514917},
                                   {0.999, 0.9999814412614826, 0.818613866919134}}) {
    EXPECT_NEAR(beta_quantile(expected.probability, 0.6, 0.6), expected.of_06_06, 1e-12 * expected.of_06_06);
    EXPECT_NEAR(beta_quantile(expected.probability, 2.0, 5.0), expected.of_2_5, 1e-12 * expected.of_2_5);
  }
}

TEST(BetaDistribution, EndsAreExact) {
  EXPECT_EQ(beta_quantile(0.0, 0.6, 0.6), 0.0);
  EXPECT_EQ(beta_quantile(1.0, 0.6, 0.6), 1.0);
}

}  // namespace
}  // namespace lamina
