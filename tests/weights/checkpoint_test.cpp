#include "weights/checkpoint.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/expect_error.h"
#include "base/temporary_folder.h"
#include "base/without_privileges.h"
#include "weights/crafted_safetensors.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using testing::crafted_safetensors;
using testing::expect_error;
using testing::TemporaryFolder;

constexpr const char* kIndex = "model.safetensors.index.json";

/// A file of U8 tensors of one element each, whose values are 0, 1, 2, ...
std::string shard_of(const std::vector<std::string>& names) {
  std::string header = "{";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) header += ",";
    header += "\"" + names[i] + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(i) + "," +
              std::to_string(i + 1) + "]}";
  }
  return crafted_safetensors(header + "}", names.size());
}

int value_of(const Checkpoint& checkpoint, const std::string& name) {
  return std::to_integer<int>(*checkpoint.view({name, DType::u8, {1}}).data());
}

std::vector<std::string> names_of(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const TensorSpec& spec : checkpoint.tensors()) names.push_back(spec.name);
  return names;
}

TEST(Checkpoint, OpensTheOnlyFile) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", shard_of({"b", "a", "c"}));
  folder.write("model.fp16.safetensors", "a variant that nobody asked for");
  folder.write("diffusion_pytorch_model.safetensors", "another stem");
  const Checkpoint checkpoint = Checkpoint::open(folder.path(), "model");
  EXPECT_EQ(names_of(checkpoint), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(value_of(checkpoint, "b"), 0);
  EXPECT_EQ(value_of(checkpoint, "c"), 2);
  EXPECT_EQ(checkpoint.path(), folder.path());
}

TEST(Checkpoint, FindsTensorsByName) {
  const TemporaryFolder folder;
  const Checkpoint checkpoint = Checkpoint::open_file(folder.write("x.safetensors", shard_of({"a", "b"})));
  ASSERT_NE(checkpoint.find("b"), nullptr);
  EXPECT_EQ(to_string(*checkpoint.find("b")), "b U8 [1]");
  EXPECT_EQ(checkpoint.find("ab"), nullptr);
  EXPECT_EQ(checkpoint.find(""), nullptr);
  EXPECT_EQ(checkpoint.find("z"), nullptr);
  EXPECT_EQ(checkpoint.dtype_of("a"), DType::u8);
  EXPECT_EQ(checkpoint.path(), folder.path() / "x.safetensors");
}

TEST(Checkpoint, ViewsTellFoundAndExpected) {
  const TemporaryFolder folder;
  const std::string file = folder.write("model.safetensors", shard_of({"a"})).string();
  const Checkpoint checkpoint = Checkpoint::open(folder.path(), "model");
  expect_error(ErrorCode::incompatible, {file, "tensor \"a\" is U8 [1]; BF16 [1] is expected"}, [&] {
    checkpoint.view({"a", DType::bf16, {1}});
  });
  expect_error(ErrorCode::incompatible, {file, "tensor \"a\" is U8 [1]; U8 [1, 1] is expected"}, [&] {
    checkpoint.view({"a", DType::u8, {1, 1}});
  });
  expect_error(ErrorCode::not_found, {folder.path().string(), "no tensor 'b'"}, [&] {
    checkpoint.view({"b", DType::u8, {1}});
  });
  expect_error(ErrorCode::not_found, {folder.path().string(), "no tensor 'b'"}, [&] { checkpoint.dtype_of("b"); });
}

TEST(Checkpoint, ReadsTheShardsOfTheIndexOnly) {
  const TemporaryFolder folder;
  folder.write("model-00001-of-00002.safetensors", shard_of({"x", "a"}));
  folder.write("model-00002-of-00002.safetensors", shard_of({"b", "c", "x"}));
  // A second set of shards and a single file from another save, both broken: nobody opens them.
  folder.write("model-00001-of-00003.safetensors", "stray");
  folder.write("model.safetensors", "stray");
  folder.write(kIndex, R"({"metadata": {"total_size": 1}, "weight_map": {
      "c": "model-00002-of-00002.safetensors", "a": "model-00001-of-00002.safetensors",
      "x": "model-00002-of-00002.safetensors"}})");
  const Checkpoint checkpoint = Checkpoint::open(folder.path(), "model");
  EXPECT_EQ(names_of(checkpoint), (std::vector<std::string>{"a", "c", "x"}));
  EXPECT_EQ(value_of(checkpoint, "a"), 1);
  EXPECT_EQ(value_of(checkpoint, "c"), 1);
  // "x" stands in both shards; the index decides.
  EXPECT_EQ(value_of(checkpoint, "x"), 2);
}

TEST(Checkpoint, ViewsSurviveMoves) {
  const TemporaryFolder folder;
  Checkpoint checkpoint = Checkpoint::open_file(folder.write("x.safetensors", shard_of({"a", "b"})));
  const ConstTensorView view = checkpoint.view({"b", DType::u8, {1}});
  const Checkpoint moved = std::move(checkpoint);
  EXPECT_EQ(std::to_integer<int>(*view.data()), 1);
  EXPECT_EQ(value_of(moved, "b"), 1);
}

TEST(Checkpoint, FollowsLinksOfHubCaches) {
  const TemporaryFolder folder;
  folder.write("blobs/1", shard_of({"a"}));
  folder.write("blobs/2", R"({"weight_map": {"a": "s.safetensors"}})");
  const fs::path snapshot = folder.path() / "snapshots/main";
  fs::create_directories(snapshot);
  fs::create_symlink("../../blobs/1", snapshot / "s.safetensors");
  fs::create_symlink("../../blobs/2", snapshot / kIndex);
  EXPECT_EQ(value_of(Checkpoint::open(snapshot, "model"), "a"), 0);

  fs::remove(folder.path() / "blobs/1");
  expect_error(ErrorCode::not_found, {"s.safetensors", "links to"}, [&] { Checkpoint::open(snapshot, "model"); });
  // An index that links to nothing does not turn into a checkpoint without index.
  fs::remove(folder.path() / "blobs/2");
  folder.write("snapshots/main/model.safetensors", shard_of({"a"}));
  expect_error(ErrorCode::not_found, {kIndex, "links to"}, [&] { Checkpoint::open(snapshot, "model"); });
}

TEST(Checkpoint, NamesBothFilesItLookedFor) {
  const TemporaryFolder folder;
  for (const fs::path& path : {folder.path(), folder.path() / "gone"})
    expect_error(ErrorCode::not_found, {path.string(), kIndex, "nor model.safetensors"},
                 [&] { Checkpoint::open(path, "model"); });
}

TEST(Checkpoint, NamesTheFileThatIsCutShort) {
  const TemporaryFolder folder;
  const std::string whole = shard_of({"a", "b", "c"});
  const auto file = folder.write("model.safetensors", whole.substr(0, whole.size() - 2));
  expect_error(ErrorCode::corrupt, {file.string(), "2 bytes are missing"},
               [&] { Checkpoint::open(folder.path(), "model"); });
}

TEST(Checkpoint, NamesTheFileThatMayNotBeRead) {
  const TemporaryFolder folder;
  const auto file = folder.write("model.safetensors", shard_of({"a"}));
  fs::permissions(file, fs::perms::none);
  constexpr fs::perms kAll =
      fs::perms::others_exec | fs::perms::others_read | fs::perms::group_exec | fs::perms::group_read;
  fs::permissions(folder.path(), kAll, fs::perm_options::add);
  const testing::WithoutPrivileges nobody;
  expect_error(ErrorCode::unavailable, {file.string(), "denied"}, [&] { Checkpoint::open(folder.path(), "model"); });
}

TEST(Checkpoint, WeightsHaveADtypeThatOperationsTake) {
  const TemporaryFolder folder;
  const auto file = folder.write("m.safetensors", shard_of({"a"}));
  const Checkpoint checkpoint = Checkpoint::open_file(file);
  EXPECT_EQ(checkpoint.dtype_of("a"), DType::u8);
  expect_error(ErrorCode::not_implemented, {file.string(), "tensor \"a\" is stored as U8"},
               [&] { checkpoint.weight_dtype_of("a"); });
}

struct IndexFault {
  const char* name;
  std::string index;
  ErrorCode code;
  std::vector<std::string> parts;
};

class IndexFaultTest : public ::testing::TestWithParam<IndexFault> {};

TEST_P(IndexFaultTest, IsRefused) {
  const TemporaryFolder folder;
  folder.write("outside.safetensors", shard_of({"a"}));
  folder.write("model/s.safetensors", shard_of({"a"}));
  const auto index = folder.write(fs::path("model") / kIndex, GetParam().index);
  std::vector<std::string> parts = GetParam().parts;
  parts.push_back(index.string());
  expect_error(GetParam().code, parts, [&] { Checkpoint::open(folder.path() / "model", "model"); });
}

INSTANTIATE_TEST_SUITE_P(
    All, IndexFaultTest,
    ::testing::Values(
        IndexFault{"broken_json", R"({"weight_map": {)", ErrorCode::corrupt, {"not valid JSON"}},
        IndexFault{"duplicate_tensor",
                   R"({"weight_map": {"a": "s.safetensors", "a": "s.safetensors"}})",
                   ErrorCode::corrupt,
                   {"duplicate key \"a\" in \"weight_map\""}},
        IndexFault{"list", "[]", ErrorCode::corrupt, {"found []", "object"}},
        IndexFault{"no_weight_map", R"({"metadata": {}})", ErrorCode::corrupt, {"'weight_map' is missing"}},
        IndexFault{"weight_map_list", R"({"weight_map": ["a"]})", ErrorCode::corrupt, {"'weight_map' is [\"a\"]"}},
        IndexFault{"shard_number", R"({"weight_map": {"a": 1}})", ErrorCode::corrupt, {"tensor \"a\" in 1"}},
        IndexFault{"shard_above",
                   R"({"weight_map": {"a": "../outside.safetensors"}})",
                   ErrorCode::corrupt,
                   {"tensor \"a\" in \"../outside.safetensors\"", "the same folder"}},
        IndexFault{"shard_absolute", R"({"weight_map": {"a": "/etc/passwd"}})", ErrorCode::corrupt, {"/etc/passwd"}},
        IndexFault{"shard_below", R"({"weight_map": {"a": "b/s.safetensors"}})", ErrorCode::corrupt, {"b/s."}},
        IndexFault{"shard_parent", R"({"weight_map": {"a": ".."}})", ErrorCode::corrupt, {"\"..\""}},
        IndexFault{"shard_empty", R"({"weight_map": {"a": ""}})", ErrorCode::corrupt, {"tensor \"a\" in \"\""}},
        IndexFault{"shard_zero_byte",
                   R"({"weight_map": {"a": "s.safetensors\u0000"}})",
                   ErrorCode::corrupt,
                   {R"("s.safetensors\u0000")"}},
        IndexFault{"shard_absent",
                   R"({"weight_map": {"a": "s.safetensors", "b": "t.safetensors"}})",
                   ErrorCode::not_found,
                   {"shard \"t.safetensors\" does not exist"}},
        IndexFault{"shard_lacks_tensor",
                   R"({"weight_map": {"a": "s.safetensors", "b": "s.safetensors"}})",
                   ErrorCode::not_found,
                   {"shard \"s.safetensors\" lacks tensor \"b\""}}),
    [](const auto& fault) { return fault.param.name; });

}  // namespace
}  // namespace lamina
