#include "weights/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/expect_error.h"
#include "base/json.h"
#include "base/temporary_folder.h"
#include "weights/checkpoint.h"
#include "weights/synthetic_weights.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::TemporaryFolder;

/// The second one is larger than a piece, and its end is no whole one.
const std::vector<TensorSpec> kTensors{{"a.weight", DType::bf16, {3, 5}},
                                       {"b.weight", DType::bf16, {1024, 1000}},
                                       {"c.bias", DType::bf16, {7}},
                                       {"d.weight", DType::bf16, {100, 100}}};

void fill(const TensorSpec& tensor, std::size_t offset_bytes, std::span<std::byte> bytes) {
  fill_synthetic(tensor, 1, offset_bytes, bytes);
}

Checkpoint write(const fs::path& folder, std::size_t shards) {
  fs::create_directories(folder);
  write_checkpoint(folder, "model", kTensors, shards, fill);
  return Checkpoint::open(folder, "model");
}

TEST(CheckpointWriter, WritesTheSameTensorsInOneFileAndInShards) {
  const TemporaryFolder scratch;
  const Checkpoint single = write(scratch.path() / "single", 1);
  const Checkpoint sharded = write(scratch.path() / "sharded", 3);
  ASSERT_EQ(single.tensors().size(), kTensors.size());
  EXPECT_EQ(single.tensors(), sharded.tensors());
  for (const TensorSpec& tensor : kTensors) {
    std::vector<std::byte> expected(tensor.size_bytes());
    fill(tensor, 0, expected);
    for (const Checkpoint* checkpoint : {&single, &sharded})
      EXPECT_EQ(std::memcmp(checkpoint->view(tensor).data(), expected.data(), expected.size()), 0) << tensor.name;
  }
}

TEST(CheckpointWriter, NamesShardsAndTheirSumInTheIndex) {
  const TemporaryFolder scratch;
  write(scratch.path(), 2);
  const Json index = read_json_file(scratch.path() / "model.safetensors.index.json");
  EXPECT_EQ(index.at("weight_map").at("a.weight"), "model-00001-of-00002.safetensors");
  EXPECT_EQ(index.at("weight_map").at("d.weight"), "model-00002-of-00002.safetensors");
  EXPECT_EQ(index.at("metadata").at("total_size"), 2 * (15 + 1024 * 1000 + 7 + 10000));
  EXPECT_FALSE(fs::exists(scratch.path() / "model.safetensors"));
}

TEST(CheckpointWriter, ShardsAreEvenAndNeverEmpty) {
  std::vector<TensorSpec> equal;
  for (int i = 0; i < 10; ++i) equal.push_back({std::to_string(i), DType::bf16, {4, 4}});
  EXPECT_EQ(split_into_shards(equal, 5), (std::vector<std::size_t>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(split_into_shards(equal, 10).size(), 11U);
  EXPECT_EQ(split_into_shards(kTensors, 1), (std::vector<std::size_t>{0, 4}));
  EXPECT_EQ(split_into_shards(kTensors, 4), (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  const std::vector<std::size_t> three = split_into_shards(kTensors, 3);
  EXPECT_TRUE(std::ranges::is_sorted(three, std::less_equal{})) << "an empty shard";
  expect_error(ErrorCode::invalid_argument, {"shards 5", "4 tensors"}, [] { split_into_shards(kTensors, 5); });
  expect_error(ErrorCode::invalid_argument, {"shards 0"}, [] { split_into_shards(kTensors, 0); });
}

}  // namespace
}  // namespace lamina
