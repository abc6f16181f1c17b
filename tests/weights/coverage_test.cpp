#include "weights/coverage.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "base/temporary_folder.h"
#include "weights/crafted_safetensors.h"

namespace lamina {
namespace {

using testing::expect_error;

class CoverageTest : public ::testing::Test {
 protected:
  CoverageTest()
      : checkpoint_(Checkpoint::open_file(folder_.write(
            "m.safetensors",
            testing::crafted_safetensors(R"({"in":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                         R"("layers.1.w":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
                                         R"("layers.10.w":{"dtype":"U8","shape":[1],"data_offsets":[3,4]},)"
                                         R"("out":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})",
                                         5)))) {}

  std::vector<std::string> unused(const std::vector<TensorSpec>& consumed, const std::vector<std::string>& known = {}) {
    return check_coverage(checkpoint_, {"vae", consumed, known, {}});
  }

  testing::TemporaryFolder folder_;
  Checkpoint checkpoint_;
};

TEST_F(CoverageTest, NamesWhatNobodyConsumes) {
  EXPECT_EQ(unused({{"in", DType::u8, {2}}, {"layers.10.w", DType::u8, {1}}}),
            (std::vector<std::string>{"layers.1.w", "out"}));
  EXPECT_EQ(unused({}).size(), 4u);
}

TEST_F(CoverageTest, LeavesOutWhatIsKnownToBeUnused) {
  EXPECT_EQ(unused({{"in", DType::u8, {2}}}, {"layers.1.", "out"}), (std::vector<std::string>{"layers.10.w"}));
  EXPECT_EQ(unused({{"in", DType::u8, {2}}}, {"layers.", "ou"}), (std::vector<std::string>{"out"}));
}

TEST_F(CoverageTest, MissingTensorsNameComponentFileAndTensor) {
  expect_error(ErrorCode::not_found, {"component 'vae'", "m.safetensors lacks tensor 'mid.w' (BF16 [4, 4])"}, [&] {
    unused({{"mid.w", DType::bf16, {4, 4}}});
  });
}

TEST_F(CoverageTest, OtherTensorsNameFoundAndExpected) {
  expect_error(ErrorCode::incompatible, {"m.safetensors", "\"in\" is U8 [2]; U8 [3] is expected"}, [&] {
    unused({{"in", DType::u8, {3}}});
  });
}

}  // namespace
}  // namespace lamina
