#include "weights/model_folder.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "base/temporary_folder.h"
#include "test_data.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::TemporaryFolder;

TEST(ModelFolder, DescribesTheDemoModel) {
  const fs::path path = test_data::models() / "tiny-shapes";
  const ModelFolder model = ModelFolder::open(path);
  EXPECT_EQ(model.class_name(), "Flux2KleinPipeline");
  EXPECT_FALSE(model.is_distilled());
  EXPECT_EQ(model.path(), path);
  ASSERT_EQ(model.components().size(), 5u);
  EXPECT_EQ(model.components()[0].name, "scheduler");
  ASSERT_NE(model.find("text_encoder"), nullptr);
  EXPECT_EQ(model.find("text_encoder")->library, "transformers");
  EXPECT_EQ(model.find("text_encoder")->class_name, "Qwen3ForCausalLM");
  EXPECT_EQ(model.component_path("vae"), path / "vae");
}

TEST(ModelFolder, TellsComponentsFromSettings) {
  const TemporaryFolder folder;
  folder.write("model_index.json", R"({"_class_name": "WanPipeline", "is_distilled": true, "boundary_ratio": 0.875,
      "sizes": [480, 832], "transformer": ["diffusers", "WanTransformer3DModel"], "transformer_2": [null, null],
      "image_encoder": null})");
  const ModelFolder model = ModelFolder::open(folder.path());
  EXPECT_TRUE(model.is_distilled());
  ASSERT_EQ(model.components().size(), 1u);
  EXPECT_EQ(model.components()[0].name, "transformer");
  EXPECT_EQ(model.find("transformer_2"), nullptr);
  EXPECT_EQ(model.index().number("boundary_ratio"), 0.875);
}

TEST(ModelFolder, OpensLinkedFolders) {
  const TemporaryFolder folder;
  folder.write("model/model_index.json", R"({"_class_name": "P", "vae": ["diffusers", "V"]})");
  folder.write("elsewhere/config.json", "{}");
  fs::create_symlink("../elsewhere", folder.path() / "model/vae");
  fs::create_symlink("model", folder.path() / "link");
  EXPECT_EQ(ModelFolder::open(folder.path() / "link").component_path("vae"), folder.path() / "link/vae");
}

TEST(ModelFolder, RefusesPathsWithoutModel) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", "");
  const fs::path gone = folder.path() / "gone";
  expect_error(ErrorCode::not_found, {"no such model: " + gone.string()}, [&] { ModelFolder::open(gone); });
  expect_error(ErrorCode::not_found, {"no such model: "}, [&] { ModelFolder::open(""); });
  expect_error(ErrorCode::not_found, {"no such model: ", "too long"},
               [&] { ModelFolder::open(folder.path() / std::string(300, 'a')); });
  expect_error(ErrorCode::invalid_argument, {file.string() + " is a file"}, [&] { ModelFolder::open(file); });
  const auto gguf = folder.write("flux.gguf", "");
  expect_error(ErrorCode::invalid_argument, {gguf.string() + " holds GGUF"}, [&] { ModelFolder::open(gguf); });
  expect_error(ErrorCode::not_found, {folder.path().string(), "model_index.json"},
               [&] { ModelFolder::open(folder.path()); });
}

TEST(ModelFolder, RefusesBrokenIndexes) {
  const TemporaryFolder folder;
  const auto expect_refused = [&](ErrorCode code, std::string_view index, std::vector<std::string> parts) {
    parts.push_back(folder.write("model_index.json", index).string());
    expect_error(code, parts, [&] { ModelFolder::open(folder.path()); });
  };
  expect_refused(ErrorCode::corrupt, "{", {"not valid JSON"});
  expect_refused(ErrorCode::corrupt, R"({"vae": null, "vae": null})", {"duplicate key \"vae\""});
  expect_refused(ErrorCode::incompatible, "[]", {"object is expected"});
  expect_refused(ErrorCode::not_found, "{}", {"'_class_name' is missing"});
  expect_refused(ErrorCode::incompatible, R"({"_class_name": 3})", {"'_class_name': found 3"});
  expect_refused(ErrorCode::incompatible, R"({"_class_name": "P", "is_distilled": 1})", {"'is_distilled': found 1"});
  expect_refused(ErrorCode::incompatible, R"({"_class_name": "P", "vae": ["diffusers", null]})", {"'vae'", "[library"});
  expect_refused(ErrorCode::incompatible, R"({"_class_name": "P", "../vae": ["d", "V"]})", {"'../vae'", "folder"});
}

TEST(ModelFolder, NamesTheComponentThatIsMissing) {
  const TemporaryFolder folder;
  folder.write("model_index.json", R"({"_class_name": "P", "vae": ["d", "V"], "transformer": ["d", "T"]})");
  folder.write("transformer", "not a folder");
  const ModelFolder model = ModelFolder::open(folder.path());
  expect_error(ErrorCode::not_found, {"'vae'", (folder.path() / "vae").string()}, [&] { model.component_path("vae"); });
  expect_error(ErrorCode::not_found, {"'transformer'"}, [&] { model.component_path("transformer"); });
  expect_error(ErrorCode::not_found, {"model_index.json", "no component 'tokenizer'"},
               [&] { model.component_path("tokenizer"); });
}

}  // namespace
}  // namespace lamina
