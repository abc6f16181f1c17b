#include "models/flux2_vae/flux2_latent_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/temporary_folder.h"
#include "device/catch_error.h"
#include "models/device_run.h"
#include "weights/safetensors_writer.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;

/// Of one latent channel, so that four packed channels have statistics.
Flux2VaeConfig config_of_four() {
  Flux2VaeConfig config;
  config.latent_channels = 1;
  config.batch_norm_epsilon = 0.25;
  return config;
}

class Flux2LatentStatisticsTest : public ::testing::Test {
 protected:
  template <typename Element>
  Checkpoint write(DType dtype, const std::vector<Element>& mean, const std::vector<Element>& variance) {
    const auto view_of = [&](const std::vector<Element>& values) {
      return ConstTensorView(reinterpret_cast<const std::byte*>(values.data()), dtype,
                             {static_cast<std::int64_t>(values.size())});
    };
    AtomicFile file(path_);
    const std::vector<NamedTensor> tensors{{"bn.running_mean", view_of(mean)}, {"bn.running_var", view_of(variance)}};
    write_safetensors(file, tensors);
    file.commit();
    return Checkpoint::open_file(path_);
  }

  Error refusal(const Checkpoint& checkpoint) {
    return testing::catch_error([&] { Flux2LatentStatistics::read(config_of_four(), checkpoint); });
  }

  testing::TemporaryFolder folder_;  // tests run at the same time as each other
  std::filesystem::path path_ = folder_.path() / "vae.safetensors";
};

TEST_F(Flux2LatentStatisticsTest, AreTheBatchNorms) {
  const Checkpoint checkpoint = write<float>(DType::f32, {1, -2, 0.5, 0}, {0.75, 3.75, 0, 2});
  const auto statistics = Flux2LatentStatistics::read(config_of_four(), checkpoint);
  EXPECT_EQ(statistics.mean, (std::vector<float>{1, -2, 0.5, 0}));
  EXPECT_EQ(statistics.deviation, (std::vector<float>{1, 2, 0.5, 1.5}));
}

TEST_F(Flux2LatentStatisticsTest, AreWidenedFromBf16) {
  // 1, -2, 0.5, 0 and 0.75, 3.75, 0, 2.
  const Checkpoint checkpoint =
      write<std::uint16_t>(DType::bf16, {0x3F80, 0xC000, 0x3F00, 0}, {0x3F40, 0x4070, 0, 0x4000});
  const auto statistics = Flux2LatentStatistics::read(config_of_four(), checkpoint);
  EXPECT_EQ(statistics.mean, (std::vector<float>{1, -2, 0.5, 0}));
  EXPECT_EQ(statistics.deviation, (std::vector<float>{1, 2, 0.5, 1.5}));
}

TEST_F(Flux2LatentStatisticsTest, OfOtherTypesOrShapesAreRefused) {
  const Error type = refusal(write<double>(DType::f64, {0, 0, 0, 0}, {1, 1, 1, 1}));
  EXPECT_EQ(type.code(), ErrorCode::not_implemented);
  EXPECT_THAT(type.message(), HasSubstr("bn.running_mean is stored as F64"));
  const Error shape = refusal(write<float>(DType::f32, {0, 0, 0, 0}, {1, 1, 1}));
  EXPECT_EQ(shape.code(), ErrorCode::incompatible);
  EXPECT_THAT(shape.message(), HasSubstr("bn.running_var"));
}

TEST_F(Flux2LatentStatisticsTest, ThatNoBatchNormCanHaveAreRefused) {
  const Error negative = refusal(write<float>(DType::f32, {0, 0, 0, 0}, {1, 1, -0.5, 1}));
  EXPECT_EQ(negative.code(), ErrorCode::corrupt);
  EXPECT_THAT(negative.message(), HasSubstr("bn.running_var holds the variance -0.5 for channel 2"));
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Error not_a_number = refusal(write<float>(DType::f32, {0, kNan, 0, 0}, {1, 1, 1, 1}));
  EXPECT_EQ(not_a_number.code(), ErrorCode::corrupt);
  EXPECT_THAT(not_a_number.message(), HasSubstr("bn.running_mean holds nan for channel 1"));
}

}  // namespace
}  // namespace lamina
