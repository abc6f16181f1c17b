#include "pipelines/synthesis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>

#include "base/bytes.h"
#include "base/file.h"
#include "base/json.h"
#include "engine/engine_fixture.h"
#include "lamina/engine.h"
#include "pipelines/registry.h"
#include "test_data.h"
#include "weights/model_folder.h"

namespace lamina::test {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

/// The shapes of tiny-shapes, other weights.
SynthesisRequest tiny_request(std::vector<std::string> components = {"all"}, std::size_t shards = 1) {
  return {.family = "flux2",
          .size = (tiny_shapes() / "transformer" / "config.json").string(),
          .components = std::move(components),
          .shards = shards,
          .seed = 3};
}

fs::path synthesize(const SynthesisRequest& request, const fs::path& destination) {
  write_synthetic_model(plan_synthesis(request), request, destination);
  return destination;
}

std::string stem_of(const std::string& component) {
  return component == "text_encoder" ? "model" : "diffusion_pytorch_model";
}

/// Every file below a folder, by its relative path.
std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[fs::relative(entry, folder).string()] = read_text_file(entry.path());
  return files;
}

void expect_refused(ErrorCode code, const std::vector<std::string>& parts, const std::function<void()>& action) {
  try {
    action();
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& part : parts) EXPECT_THAT(error.message(), HasSubstr(part));
  }
}

TEST(Synthesis, WritesTheTensorsOfTheModelItIsShapedAfter) {
  const ScratchFolder scratch;
  const fs::path model = synthesize(tiny_request(), scratch.path() / "model");
  for (const std::string component : {"transformer", "text_encoder", "vae"}) {
    const Checkpoint found = Checkpoint::open(model / component, stem_of(component));
    const Checkpoint like = Checkpoint::open(tiny_shapes() / component, stem_of(component));
    for (const TensorSpec& tensor : found.tensors()) {
      ASSERT_NE(like.find(tensor.name), nullptr) << tensor.name;
      EXPECT_EQ(like.find(tensor.name)->shape, tensor.shape) << tensor.name;
      EXPECT_EQ(tensor.dtype, DType::bf16);
    }
    if (component == "transformer") {
      EXPECT_EQ(found.tensors().size(), like.tensors().size());
    }
    EXPECT_EQ(read_json_file(model / component / "config.json"),
              read_json_file(tiny_shapes() / component / "config.json"));
  }
  // Opening compares configurations with tensors and proves that none is missing.
  EXPECT_EQ(open_pipeline(ModelFolder::open(model))->parts().size(), 4U);
}

TEST(Synthesis, ShardsHoldTheSameBytes) {
  const ScratchFolder scratch;
  const fs::path one = synthesize(tiny_request(), scratch.path() / "one");
  const fs::path three = synthesize(tiny_request({"all"}, 3), scratch.path() / "three");
  for (const std::string component : {"transformer", "text_encoder", "vae"}) {
    EXPECT_TRUE(fs::exists(three / component / (stem_of(component) + "-00003-of-00003.safetensors")));
    const Checkpoint a = Checkpoint::open(one / component, stem_of(component));
    const Checkpoint b = Checkpoint::open(three / component, stem_of(component));
    ASSERT_EQ(a.tensors(), b.tensors());
    for (const TensorSpec& tensor : a.tensors())
      EXPECT_EQ(std::memcmp(a.view(tensor).data(), b.view(tensor).data(), tensor.size_bytes()), 0) << tensor.name;
  }
}

TEST(Synthesis, TheSameRequestGivesTheSameFilesAndAnotherSeedOthers) {
  const ScratchFolder scratch;
  SynthesisRequest request = tiny_request();
  const auto first = files_of(synthesize(request, scratch.path() / "first"));
  EXPECT_EQ(files_of(synthesize(request, scratch.path() / "second")), first);
  request.seed = 4;
  EXPECT_NE(files_of(synthesize(request, scratch.path() / "third")), first);
}

/// Source: parameter counts of diffusers' and transformers' classes, at two bytes each.
TEST(Synthesis, PublishedSizesHaveTheirPublishedBytes) {
  const auto bytes = [](const char* size, const char* component) {
    return plan_synthesis({.family = "flux2", .size = size, .components = {component}}).weight_bytes();
  };
  EXPECT_EQ(bytes("klein-4b", "transformer"), 7'751'089'152U);
  EXPECT_EQ(bytes("klein-9b", "transformer"), 18'157'162'496U);
  EXPECT_EQ(bytes("dev", "transformer"), 64'446'562'304U);
  EXPECT_EQ(bytes("klein-4b", "text_encoder"), 6'228'176'384U);
  EXPECT_EQ(bytes("klein-9b", "text_encoder"), 11'663'767'040U);
  // 84,046,115 parameters, and mean and variance of 128 channels.
  EXPECT_EQ(bytes("dev", "vae"), 2U * (84'046'115U + 2 * 128));
  const auto klein = plan_synthesis({.family = "flux2", .size = "klein-4b", .components = {"transformer"}});
  EXPECT_EQ(klein.components.front().tensors.size(), 169U);
}

GenerateRequest embeds_request() {
  GenerateRequest request = small_request();
  request.prompt = "";
  request.prompt_embeds_seed = 9;
  request.num_inference_steps = 4;
  return request;
}

TEST(Synthesis, StepsStayFiniteAndOfModerateSizeAndTheSameStreamedAndResident) {
  const ScratchFolder scratch;
  const fs::path model = synthesize(tiny_request({"transformer", "vae"}, 2), scratch.path() / "model");
  const GenerateResult resident = make_generator(model, {})->generate(embeds_request());
  const GenerateResult streamed = make_generator(model, {.stream = true})->generate(embeds_request());
  EXPECT_EQ(resident.picture.rgb, streamed.picture.rgb);
  EXPECT_EQ(tensor_of(resident, "latents").values, tensor_of(streamed, "latents").values);
  EXPECT_EQ(tensor_of(resident, "latents").shape.front(), 4);
  double squares = 0;
  for (const float value : tensor_of(resident, "latents").values) {
    ASSERT_TRUE(std::isfinite(value));
    EXPECT_LT(std::abs(value), 20.0F);
    squares += double{value} * value;
  }
  const double deviation = std::sqrt(squares / static_cast<double>(tensor_of(resident, "latents").values.size()));
  EXPECT_GT(deviation, 0.2);
  EXPECT_LT(deviation, 5.0);
  EXPECT_THAT(resident.settings, Contains(std::pair<std::string, std::string>("prompt_embeds", "random:9")));
}

TEST(Synthesis, PromptsRunOnceATokenizerIsThere) {
  const ScratchFolder scratch;
  const fs::path model = synthesize(tiny_request(), scratch.path() / "model");
  expect_refused(ErrorCode::not_found, {"tokenizer", "prompt embeddings"},
                 [&] { make_generator(model, {.stream = true})->generate(small_request()); });
  fs::create_symlink(tiny_shapes() / "tokenizer", model / "tokenizer");
  Json index = read_json_file(model / "model_index.json");
  index["tokenizer"] = {"transformers", "Qwen2Tokenizer"};
  std::ofstream(model / "model_index.json") << index.dump();
  const GenerateResult result = make_generator(model, {.stream = true})->generate(small_request());
  for (const float value : tensor_of(result, "prompt_embeds").values) ASSERT_TRUE(std::isfinite(value));
  for (const float value : tensor_of(result, "image").values) ASSERT_TRUE(std::isfinite(value));
}

TEST(Synthesis, ATransformerAloneIsInspectedAndMakesNoPicture) {
  const ScratchFolder scratch;
  const fs::path model = synthesize(tiny_request({"transformer"}), scratch.path() / "model");
  EXPECT_THAT(inspect({.model = model.string()}).text, HasSubstr("single_transformer_blocks"));
  expect_refused(ErrorCode::not_found, {model.string(), "vae"},
                 [&] { make_generator(model, {})->generate(embeds_request()); });
}

TEST(Synthesis, RefusesBeforeItWrites) {
  const ScratchFolder scratch;
  const fs::path out = scratch.path() / "model";
  const auto plan = [](auto change) {
    return [change] {
      SynthesisRequest request = tiny_request();
      change(request);
      plan_synthesis(request);
    };
  };
  using Request = SynthesisRequest;
  expect_refused(ErrorCode::invalid_argument, {"flux3", "flux2"}, plan([](Request& r) { r.family = "flux3"; }));
  expect_refused(ErrorCode::invalid_argument, {"huge", "klein-4b"}, plan([](Request& r) { r.size = "huge"; }));
  expect_refused(ErrorCode::invalid_argument, {"unet", "vae"}, plan([](Request& r) { r.components = {"unet"}; }));
  expect_refused(ErrorCode::not_implemented, {"dev", "Qwen3"}, plan([](Request& r) { r.size = "dev"; }));
  expect_refused(ErrorCode::not_found, {"text_encoder", "config.json", "does not exist"},
                 plan([](Request& r) { r.size = (test_data::fixtures() / "flux2/micro_config.json").string(); }));
  expect_refused(ErrorCode::not_found, {"patch_size"},
                 plan([](Request& r) { r.size = (tiny_shapes() / "text_encoder" / "config.json").string(); }));
  expect_refused(ErrorCode::invalid_argument, {"shards 5000"},
                 [&] { synthesize(tiny_request({"all"}, 5000), scratch.path() / "model"); });
  fs::create_directories(out);
  std::ofstream(out / "mine") << "text";
  expect_refused(ErrorCode::invalid_argument, {"not empty"}, [&] { synthesize(tiny_request(), out); });
  EXPECT_EQ(files_of(scratch.path()), (std::map<std::string, std::string>{{"model/mine", "text"}}));
}

/// Limits the size of the files of this process for one scope: a disk that fills up while it is written.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::size_t size_bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{size_bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    ::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit old_{};
};

TEST(Synthesis, LeavesNothingBehindWhereWritingFails) {
  const ScratchFolder scratch;
  const FileSizeLimit limit(3 * kMiB);
  expect_refused(ErrorCode::unavailable, {"diffusion_pytorch_model.safetensors", "File too large"},
                 [&] { synthesize(tiny_request(), scratch.path() / "model"); });
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

}  // namespace
}  // namespace lamina::test
