#include "weights/weight_files.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "base/temporary_folder.h"
#include "weights/checkpoint.h"
#include "weights/crafted_safetensors.h"

namespace lamina {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;

const std::string kOneTensor =
    testing::crafted_safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1);

std::string found(const TemporaryFolder& folder, const std::string& variant, const std::string& stem = "model") {
  return find_weights(folder.path(), stem, variant).path.filename().string();
}

TEST(WeightFiles, TakeTheVariantThatIsAskedForAndThePlainOnesElse) {
  const TemporaryFolder folder;
  for (const char* name : {"model.safetensors", "model.fp16.safetensors", "model.ema-only.safetensors",
                           "model.fp16.bin", "other.fp8.safetensors"})
    folder.write(name, kOneTensor);
  EXPECT_EQ(found(folder, ""), "model.safetensors");
  EXPECT_EQ(found(folder, "fp16"), "model.fp16.safetensors");
  EXPECT_EQ(found(folder, "ema-only"), "model.ema-only.safetensors");
  EXPECT_EQ(found(folder, "fp8"), "model.safetensors");
}

/// As transformers and diffusers write them now, as diffusers did, and as people name them by hand.
TEST(WeightFiles, IndexesHaveTheVariantInAnyPlace) {
  for (const std::string index : {"model.safetensors.index.bf16.json", "model.safetensors.bf16.index.json",
                                  "model.bf16.safetensors.index.json"}) {
    for (const std::string shard : {"model.bf16-00001-of-00001.safetensors", "model-00001-of-00001.bf16.safetensors"}) {
      const TemporaryFolder folder;
      folder.write(shard, kOneTensor);
      folder.write("model.bf16.safetensors", "an index goes before it");
      folder.write(index, R"({"weight_map": {"a": ")" + shard + R"("}})");
      EXPECT_EQ(found(folder, "bf16"), index);
      EXPECT_NE(Checkpoint::open(folder.path(), "model", "bf16").find("a"), nullptr);
    }
  }
}

TEST(WeightFiles, OnlyAVariantIsNamedWithItsFlag) {
  for (const std::string name : {"model.fp16.safetensors", "model.fp16-00001-of-00002.safetensors",
                                 "model-00001-of-00002.fp16.safetensors", "model.safetensors.index.fp16.json"}) {
    const TemporaryFolder folder;
    folder.write(name, "");
    expect_error(ErrorCode::not_found,
                 {folder.path().string(), "nor model.safetensors", "variant 'fp16' (" + name + ")", "--variant fp16"},
                 [&] { found(folder, ""); });
  }
  const TemporaryFolder folder;
  folder.write("model.fp16.safetensors", "");
  folder.write("model.bf16.safetensors", "");
  expect_error(ErrorCode::not_found, {"'bf16' (model.bf16.safetensors), 'fp16' (model.fp16.safetensors)"},
               [&] { found(folder, "fp8"); });
}

TEST(WeightFiles, PicklesAndGgufAreNamedAsWhatTheyAre) {
  for (const std::string name : {"pytorch_model.bin", "flux.ckpt", "model-00001-of-00002.pt", "m.pth"}) {
    const TemporaryFolder folder;
    folder.write(name, "");
    expect_error(ErrorCode::not_found, {name + " is a Python pickle", "run any code", "safe_serialization"},
                 [&] { found(folder, ""); });
  }
  const TemporaryFolder folder;
  folder.write("flux2-klein-Q4_K_M.gguf", "");
  expect_error(ErrorCode::not_found, {"flux2-klein-Q4_K_M.gguf holds GGUF weights", "safetensors"},
               [&] { found(folder, ""); });
}

TEST(WeightFiles, ForeignContentIsNamedWhateverItsName) {
  const TemporaryFolder folder;
  using namespace std::string_literals;
  for (const std::string& content : {"PK\x03\x04 archive/data.pkl"s, "\x80\x02\x8a\nl\xfc\x9c\x46\xf9"s})
    expect_error(ErrorCode::incompatible, {"lora.safetensors is a Python pickle"},
                 [&] { Checkpoint::open_file(folder.write("lora.safetensors", content)); });
  expect_error(ErrorCode::incompatible, {"lora.safetensors holds GGUF weights"},
               [&] { Checkpoint::open_file(folder.write("lora.safetensors", "GGUF\3\0\0\0tensors"s)); });
}

TEST(WeightFiles, AVariantOfNoComponentIsRefusedWithThoseThatAreThere) {
  const TemporaryFolder folder;
  folder.write("model_index.json", R"({"_class_name": "P", "vae": ["diffusers", "V"], "text_encoder": ["t", "T"]})");
  folder.write("vae/diffusion_pytorch_model.fp16.safetensors", "");
  folder.write("text_encoder/model.safetensors", "");
  const ModelFolder model = ModelFolder::open(folder.path());
  EXPECT_NO_THROW(check_variant(model, ""));
  EXPECT_NO_THROW(check_variant(model, "fp16"));
  expect_error(ErrorCode::not_found, {"--variant bf16", folder.path().string(), "there are fp16"},
               [&] { check_variant(model, "bf16"); });
  for (const std::string wrong : {"../fp16", "fp.16"})
    expect_error(ErrorCode::invalid_argument, {"--variant " + wrong}, [&] { check_variant(model, wrong); });
}

}  // namespace
}  // namespace lamina
