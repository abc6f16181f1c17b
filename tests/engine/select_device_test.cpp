#include "engine/config/select_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "device/cuda/cuda_device.h"
#include "lamina/error.h"

namespace lamina::test {
namespace {

using ::testing::HasSubstr;

/// A name beyond any machine's devices: refused in every build.
constexpr DeviceChoice kNoDevice{DeviceKind::cuda, 1000};

std::unique_ptr<Device> create(DeviceChoice choice, std::optional<std::size_t> memory_limit_bytes = {}) {
  return create_device(choice, memory_limit_bytes, nullptr);
}

TEST(ChooseDevice, TellsWhatANameStandsFor) {
  EXPECT_EQ(choose_device("cpu").kind, DeviceKind::cpu);
  for (const auto& [name, index] : {std::pair("cuda", 0), std::pair("cuda:0", 0), std::pair("cuda:13", 13)}) {
    EXPECT_EQ(choose_device(name).kind, DeviceKind::cuda) << name;
    EXPECT_EQ(choose_device(name).index, index) << name;
  }
}

TEST(ChooseDevice, AutoTakesTheGpuWhereThereIsOne) {
  const DeviceKind expected = cuda_unavailable_reason().empty() ? DeviceKind::cuda : DeviceKind::cpu;
  EXPECT_EQ(choose_device("auto").kind, expected);
  EXPECT_EQ(create(choose_device("auto"))->kind(), expected);
}

TEST(ChooseDevice, RefusesOtherNames) {
  for (const char* name : {"", "tpu", "CPU", "cpu:0", "cuda:", "cuda:-1", "cuda:+1", "cuda:01", "cuda:1x", "cuda: 1",
                           "cuda1", "cuda:99999999999"}) {
    try {
      choose_device(name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << name;
      EXPECT_THAT(error.message(), HasSubstr("device '" + std::string(name) + "' is unknown")) << name;
      EXPECT_THAT(error.message(), HasSubstr("cuda:N")) << name;
    }
  }
}

TEST(CreateDevice, BooksAgainstTheLimit) {
  const auto device = create({DeviceKind::cpu}, 1000);
  EXPECT_EQ(device->name(), "cpu");
  EXPECT_THROW(device->allocate(1001, "test"), Error);
}

TEST(CreateDevice, SaysWhatIsMissing) {
  try {
    create(kNoDevice);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_THAT(error.message(), HasSubstr("cuda:1000: "));
  }
}

}  // namespace
}  // namespace lamina::test
