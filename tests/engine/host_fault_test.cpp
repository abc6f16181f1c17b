// Bad checkpoints get the same verdict whatever the backing: mapped, private, and without offload.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "base/captured_log.h"
#include "base/json.h"
#include "engine/engine_fixture.h"
#include "engine/own_checkpoint.h"

namespace lamina::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::vector<OffloadOptions>& all_paths() {
  static const std::vector<OffloadOptions> paths{
      {},
      {.stream = true, .host_backing = HostBackingChoice::private_pages},
      {.stream = true, .host_backing = HostBackingChoice::mapped},
  };
  return paths;
}

std::vector<std::uint8_t> picture_of(const fs::path& model, const OffloadOptions& options) {
  return make_generator(model, options)->generate(small_request()).picture.rgb;
}

const std::vector<std::uint8_t>& demo_picture() {
  static const std::vector<std::uint8_t> picture = picture_of(tiny_shapes(), {});
  return picture;
}

OwnedTensor& find(OwnedTensors& tensors, const std::string& name) {
  return *std::ranges::find_if(tensors, [&](const OwnedTensor& tensor) { return tensor.spec.name == name; });
}

struct FaultRow {
  const char* name;
  ErrorCode code;
  std::vector<std::string> parts;                   ///< of the message, beside the file's path
  std::function<void(OwnedTensors&)> store;         ///< before the checkpoint is written; may be empty
  std::function<void(const fs::path& file)> spoil;  ///< the written file; may be empty
};

/// GoogleTest would print bytes.
void PrintTo(const FaultRow& row, std::ostream* out) {
  *out << row.name;
}

class HostFaults : public ::testing::TestWithParam<FaultRow> {};

const char* const kNorm = "transformer_blocks.1.attn.norm_k.weight";

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, HostFaults,
    ::testing::Values(
        FaultRow{"TrailingBytes",
                 ErrorCode::corrupt,
                 {"3 bytes behind the last tensor"},
                 {},
                 [](const fs::path& file) { std::ofstream(file, std::ios::app | std::ios::binary) << "abc"; }},
        FaultRow{"CutShort",
                 ErrorCode::corrupt,
                 {"3 bytes are missing"},
                 {},
                 [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) - 3); }},
        FaultRow{"Empty", ErrorCode::corrupt, {"0 bytes"}, {}, [](const fs::path& file) { fs::resize_file(file, 0); }},
        FaultRow{"AFolder",
                 ErrorCode::invalid_argument,
                 {"is a folder"},
                 {},
                 [](const fs::path& file) {
                   fs::remove(file);
                   fs::create_directory(file);
                 }},
        FaultRow{"ALinkToNothing",
                 ErrorCode::not_found,
                 {"links to"},
                 {},
                 [](const fs::path& file) {
                   fs::remove(file);
                   fs::create_symlink("../blobs/gone", file);
                 }},
        FaultRow{
            "AMissingTensor", ErrorCode::not_found, {kNorm}, [](OwnedTensors& tensors) { take(tensors, kNorm); }, {}},
        FaultRow{"AnotherShape",
                 ErrorCode::incompatible,
                 {kNorm, "[16]", "[32]"},
                 [](OwnedTensors& tensors) {
                   find(tensors, kNorm).spec.shape = {16};
                   find(tensors, kNorm).bytes.resize(32);
                 },
                 {}},
        FaultRow{"NoElements",
                 ErrorCode::incompatible,
                 {kNorm, "[0]", "[32]"},
                 [](OwnedTensors& tensors) {
                   find(tensors, kNorm).spec.shape = {0};
                   find(tensors, kNorm).bytes.clear();
                 },
                 {}},
        FaultRow{"ADtypeOfNoWeight",
                 ErrorCode::not_implemented,
                 {kNorm, "I16"},
                 [](OwnedTensors& tensors) { find(tensors, kNorm).spec.dtype = DType::i16; },
                 {}},
        FaultRow{"ANormThatIsNotFinite",
                 ErrorCode::corrupt,
                 {kNorm, "element 31", "finite"},
                 [](OwnedTensors& tensors) {
                   std::vector<std::byte>& bytes = find(tensors, kNorm).bytes;
                   std::fill(bytes.end() - 2, bytes.end(), std::byte{0xFF});
                 },
                 {}}),
    [](const auto& row) { return row.param.name; });

TEST_P(HostFaults, GetTheSameVerdictInEveryPathBeforeMemoryIsTaken) {
  const FaultRow& row = GetParam();
  const ScratchFolder folder;
  OwnedTensors tensors = demo_transformer();
  if (row.store) row.store(tensors);
  const fs::path model = model_of(folder.path(), tensors);
  if (row.spoil) row.spoil(model / "transformer" / kTransformerFile);
  std::vector<std::string> messages;
  for (const OffloadOptions& options : all_paths()) {
    const auto budget = std::make_shared<HostMemoryBudget>(std::nullopt);
    try {
      make_generator(model, options, {.host_memory = budget});
      ADD_FAILURE() << "loaded";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), row.code) << error.message();
      messages.push_back(error.message());
    }
    EXPECT_EQ(budget->use().peak_bytes, 0U);
  }
  ASSERT_EQ(messages.size(), all_paths().size());
  for (const std::string& message : messages) EXPECT_EQ(message, messages.front());
  EXPECT_THAT(messages.front(), HasSubstr((model / "transformer").string()));
  for (const std::string& part : row.parts) EXPECT_THAT(messages.front(), HasSubstr(part));
}

TEST(HostFaultsThatAreNone, LinksOfHubCachesAreMapped) {
  const ScratchFolder folder;
  const fs::path model = model_of(folder.path(), demo_transformer());
  const fs::path file = model / "transformer" / kTransformerFile;
  fs::create_directory(model / "blobs");
  fs::rename(file, model / "blobs/0a1b");
  fs::create_symlink("../blobs/0a1b", file);
  for (const OffloadOptions& options : all_paths()) EXPECT_EQ(picture_of(model, options), demo_picture());
}

TEST(HostFaultsThatAreNone, TheFileDecidesOnADtypeThatTheConfigurationDenies) {
  const ScratchFolder folder;
  const fs::path model = model_of(folder.path(), demo_transformer());
  const fs::path file = model / "transformer/config.json";
  Json config = read_json_file(file);
  config["torch_dtype"] = "float32";
  std::ofstream(file) << config.dump();
  for (const OffloadOptions& options : all_paths()) {
    const testing::CapturedLog log;
    EXPECT_EQ(picture_of(model, options), demo_picture());
    EXPECT_THAT(log.text(), HasSubstr(file.string() + ": dtype is 'float32', but "));
  }
}

}  // namespace
}  // namespace lamina::test
