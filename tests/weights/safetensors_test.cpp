#include "weights/safetensors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "base/temporary_folder.h"
#include "test_data.h"
#include "weights/checkpoint.h"
#include "weights/crafted_safetensors.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using testing::crafted_safetensors;

const fs::path kModel = test_data::models() / "tiny-shapes";
const fs::path kFixtures = test_data::fixtures() / "flux2";

/// Element `index` of a tensor, its bytes aligned or not.
template <typename T>
T element(const ConstTensorView& tensor, std::int64_t index) {
  T value;
  std::memcpy(&value, tensor.data() + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

float bf16_element(const ConstTensorView& tensor, std::int64_t index) {
  return std::bit_cast<float>(std::uint32_t{element<std::uint16_t>(tensor, index)} << 16);
}

TEST(SafetensorsFile, GivesTensorsInTheOrderOfTheirBytes) {
  const testing::TemporaryFolder folder;
  const auto path = folder.write(
      "a.safetensors",
      crafted_safetensors(R"({"b":{"dtype":"U8","shape":[2,2],"data_offsets":[4,8]},"__metadata__":{"format":"pt"},)"
                          R"("a":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}   )",
                          8));
  const SafetensorsFile file = SafetensorsFile::open(path);
  ASSERT_EQ(file.header().tensors.size(), 2u);
  const StoredTensor& a = file.header().tensors[0];
  const StoredTensor& b = file.header().tensors[1];
  EXPECT_EQ(to_string(a.spec), "a I32 []");
  EXPECT_EQ(to_string(b.spec), "b U8 [2, 2]");
  EXPECT_EQ(b.offset_bytes, a.offset_bytes + 4);
  EXPECT_EQ(element<std::int32_t>(file.view(a), 0), 0x03020100);
  EXPECT_EQ(element<std::uint8_t>(file.view(b), 3), 7);
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
}

TEST(SafetensorsFile, MayHoldNoTensors) {
  const testing::TemporaryFolder folder;
  EXPECT_TRUE(SafetensorsFile::open(folder.write("a", crafted_safetensors("{}"))).header().tensors.empty());
}

TEST(SafetensorsFile, EmptyTensorsStandAnywhereBetweenOthers) {
  const testing::TemporaryFolder folder;
  const auto path =
      folder.write("a.safetensors", crafted_safetensors(R"({"x":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]},)"
                                                        R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                                        R"("y":{"dtype":"F64","shape":[0],"data_offsets":[2,2]},)"
                                                        R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
                                                        R"("z":{"dtype":"BF16","shape":[7,0],"data_offsets":[3,3]}})",
                                                        3));
  const SafetensorsFile file = SafetensorsFile::open(path);
  ASSERT_EQ(file.header().tensors.size(), 5u);
  for (const StoredTensor& tensor : file.header().tensors)
    EXPECT_EQ(file.view(tensor).span_bytes(), tensor.size_bytes) << tensor.spec.name;
}

TEST(SafetensorsFile, ReadsTensorsBehindAnOddLengthBitExactly) {
  const testing::TemporaryFolder folder;
  const auto path = folder.write("a.safetensors",
                                 crafted_safetensors(R"({"odd":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                                                     R"("wide":{"dtype":"F32","shape":[2],"data_offsets":[3,11]},)"
                                                     R"("half":{"dtype":"BF16","shape":[1],"data_offsets":[11,13]}})",
                                                     13));
  const Checkpoint checkpoint = Checkpoint::open_file(path);
  const ConstTensorView wide = checkpoint.view({"wide", DType::f32, {2}});
  EXPECT_EQ(element<std::uint32_t>(wide, 0), 0x06050403u);
  EXPECT_EQ(element<std::uint32_t>(wide, 1), 0x0a090807u);
  EXPECT_EQ(element<std::uint16_t>(checkpoint.view({"half", DType::bf16, {1}}), 0), 0x0c0bu);
}

TEST(SafetensorsFile, ViewsSurviveMoves) {
  const testing::TemporaryFolder folder;
  SafetensorsFile file = SafetensorsFile::open(folder.write(
      "a.safetensors", crafted_safetensors(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2)));
  const ConstTensorView view = file.view(file.header().tensors[0]);
  const SafetensorsFile moved = std::move(file);
  EXPECT_EQ(element<std::uint8_t>(view, 1), 1);
}

// The expected numbers below were read from the files with NumPy.

TEST(SafetensorsFile, ReadsTheDemoModel) {
  const Checkpoint transformer = Checkpoint::open(kModel / "transformer", "diffusion_pytorch_model");
  EXPECT_EQ(transformer.tensors().size(), 121u);
  const ConstTensorView embedder = transformer.view({"x_embedder.weight", DType::bf16, {160, 128}});
  EXPECT_EQ(element<std::uint16_t>(embedder, 0), 0xbd53);
  EXPECT_EQ(element<std::uint16_t>(embedder, 160 * 128 - 1), 0xbd8e);
  double sum = 0;
  for (std::int64_t i = 0; i < 160 * 128; ++i) sum += bf16_element(embedder, i);
  EXPECT_NEAR(sum, -1.8785060048103333, 1e-9);
  const ConstTensorView last =
      transformer.view({"single_transformer_blocks.11.attn.to_out.weight", DType::bf16, {160, 640}});
  EXPECT_EQ(bf16_element(last, 0), 0.0322265625f);
  EXPECT_EQ(bf16_element(last, 160 * 640 - 1), -0.0263671875f);

  const Checkpoint vae = Checkpoint::open(kModel / "vae", "diffusion_pytorch_model");
  EXPECT_EQ(vae.tensors().size(), 187u);
  EXPECT_EQ(element<std::int64_t>(vae.view({"bn.num_batches_tracked", DType::i64, {}}), 0), 0);
  EXPECT_EQ(Checkpoint::open(kModel / "text_encoder", "model").tensors().size(), 310u);
}

TEST(SafetensorsFile, ReadsTheFixtures) {
  const Checkpoint fixtures = Checkpoint::open_file(kFixtures / "fixtures.safetensors");
  const ConstTensorView noise = fixtures.view({"cfg128.noise", DType::f32, {1, 128, 8, 8}});
  EXPECT_EQ(element<float>(noise, 0), -0.51079756f);
  EXPECT_EQ(element<float>(noise, 1), 1.0282718f);
  EXPECT_EQ(element<float>(noise, 8191), 0.3959268f);
  const ConstTensorView input = fixtures.view({"edit.input", DType::u8, {3, 128, 128}});
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < 3 * 128 * 128; ++i) sum += element<std::uint8_t>(input, i);
  EXPECT_EQ(sum, 11112847);
  EXPECT_EQ(element<std::int32_t>(fixtures.view({"edit.img_ids", DType::i32, {128, 4}}), 510), 7);
}

}  // namespace
}  // namespace lamina
