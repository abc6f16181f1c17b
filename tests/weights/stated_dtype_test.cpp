#include "weights/stated_dtype.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "base/temporary_folder.h"
#include "weights/crafted_safetensors.h"

namespace lamina {
namespace {

class StatedDtype : public ::testing::Test {
 protected:
  std::optional<std::string> disagreement(std::string_view config) {
    return dtype_disagreement(ConfigReader::read(folder_.write("config.json", config)), checkpoint_);
  }

  testing::TemporaryFolder folder_;
  Checkpoint checkpoint_ = Checkpoint::open_file(folder_.write(
      "m.safetensors", testing::crafted_safetensors(R"({"w":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},)"
                                                    R"("n":{"dtype":"F32","shape":[1],"data_offsets":[6,10]}})",
                                                    10)));
};

TEST_F(StatedDtype, AgreesWhereATensorHasIt) {
  for (const char* config : {"{}", R"({"dtype": "bfloat16"})", R"({"torch_dtype": "float32"})",
                             R"({"dtype": "torch.bfloat16", "torch_dtype": "float16"})"})
    EXPECT_EQ(disagreement(config), std::nullopt) << config;
}

TEST_F(StatedDtype, NamesConfigurationFileAndLargestTensor) {
  for (const char* config : {R"({"dtype": "float16"})", R"({"torch_dtype": "torch.float16"})"}) {
    const std::string text = disagreement(config).value_or("");
    for (const char* part : {"config.json", "float16'", "m.safetensors", "w is BF16", "the file decides"})
      EXPECT_NE(text.find(part), text.npos) << text;
  }
  EXPECT_NE(disagreement(R"({"dtype": "int7"})"), std::nullopt);
}

TEST_F(StatedDtype, IsAString) {
  testing::expect_error(ErrorCode::incompatible, {"config.json", "dtype"}, [&] { disagreement(R"({"dtype": 16})"); });
}

}  // namespace
}  // namespace lamina
