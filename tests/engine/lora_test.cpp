#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/expect_error.h"
#include "engine/engine_fixture.h"
#include "engine/own_checkpoint.h"
#include "pipelines/registry.h"
#include "tensor/bf16.h"

namespace lamina::test {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;

constexpr std::int64_t kRank = 4;

/// Values of which products and sums are exact in f32, so that no order of adding counts.
std::vector<float> coarse(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 9) - 4) / 64;
  return values;
}

OwnedTensor f32_tensor(const std::string& name, const Shape& shape, const std::vector<float>& values) {
  OwnedTensor tensor{{name, DType::f32, shape}, std::vector<std::byte>(values.size() * sizeof(float))};
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

/// A module of a LoRA: its two tensors, and what they add.
struct Module {
  std::int64_t out;
  std::int64_t in;
  std::vector<float> up = coarse(out * kRank, 1);
  std::vector<float> down = coarse(kRank * in, 2);

  void append_to(OwnedTensors& tensors, const std::string& name) const {
    tensors.push_back(f32_tensor(name + ".lora_A.weight", {kRank, in}, down));
    tensors.push_back(f32_tensor(name + ".lora_B.weight", {out, kRank}, up));
  }
  double at(std::int64_t row, std::int64_t column) const {
    double sum = 0;
    for (std::int64_t k = 0; k < kRank; ++k)
      sum += double{up[static_cast<std::size_t>(row * kRank + k)]} *
             double{down[static_cast<std::size_t>(k * in + column)]};
    return sum;
  }
};

/// Adds scale times rows of the module, of which the first is `first_row`, to a bf16 tensor.
void merge(OwnedTensors& tensors, const std::string& name, const Module& module, std::int64_t first_row, double scale) {
  OwnedTensor tensor = take(tensors, name);
  for (std::int64_t row = 0; row < tensor.spec.shape[0]; ++row)
    for (std::int64_t column = 0; column < module.in; ++column) {
      std::byte* place = tensor.bytes.data() + (row * module.in + column) * 2;
      std::uint16_t bits = 0;
      std::memcpy(&bits, place, 2);
      bits = narrow(static_cast<float>(double{widen(bits)} + scale * module.at(first_row + row, column)));
      std::memcpy(place, &bits, 2);
    }
  tensors.push_back(std::move(tensor));
}

GenerateResult run(const fs::path& model, const std::vector<Lora>& loras, const OffloadOptions& options) {
  Generator generator(create_cpu_device({}), open_pipeline(ModelFolder::open(model), {.loras = loras}), options);
  return generator.generate(small_request());
}

/// One file in PEFT's names and one in the original repository's, the latter at half its strength.
TEST(Loras, AreMergedWhilePackingInEveryBacking) {
  const ScratchFolder folder;
  const ScratchFolder merged;
  const Module feed_forward{960, 160};
  const Module attention{3 * 160, 160};
  const std::string peft = (folder.path() / "peft.safetensors").string();
  const std::string original = (folder.path() / "original.safetensors").string();
  OwnedTensors tensors;
  feed_forward.append_to(tensors, "transformer.transformer_blocks.1.ff.linear_in");
  write_file(peft, tensors);
  tensors.clear();
  attention.append_to(tensors, "diffusion_model.double_blocks.0.txt_attn.qkv");
  write_file(original, tensors);

  OwnedTensors weights = demo_transformer();
  merge(weights, "transformer_blocks.1.ff.linear_in.weight", feed_forward, 0, 1);
  merge(weights, "transformer_blocks.0.attn.add_q_proj.weight", attention, 0, 0.5);
  merge(weights, "transformer_blocks.0.attn.add_k_proj.weight", attention, 160, 0.5);
  merge(weights, "transformer_blocks.0.attn.add_v_proj.weight", attention, 320, 0.5);
  const GenerateResult expected = run(model_of(merged.path(), weights), {}, {});
  EXPECT_NE(expected.picture.rgb, run(tiny_shapes(), {}, {}).picture.rgb);

  const std::vector<Lora> loras{{peft}, {original, 0.5F}};
  for (const OffloadOptions& options :
       {OffloadOptions{}, OffloadOptions{.stream = true, .host_backing = HostBackingChoice::mapped},
        OffloadOptions{.stream = true, .host_backing = HostBackingChoice::private_pages}}) {
    const GenerateResult result = run(tiny_shapes(), loras, options);
    EXPECT_EQ(result.picture.rgb, expected.picture.rgb);
    EXPECT_EQ(tensor_of(result, "latents").values, tensor_of(expected, "latents").values);
  }
}

TEST(Loras, ModulesThatTheModelLacksAreNamed) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "lora.safetensors").string();
  OwnedTensors tensors;
  Module{160, 160}.append_to(tensors, "transformer.transformer_blocks.0.attn.to_q");
  Module{160, 160}.append_to(tensors, "transformer.transformer_blocks.77.attn.to_q");
  write_file(file, tensors);
  expect_error(ErrorCode::incompatible, {file, "1 of 2 modules", "transformer_blocks.77.attn.to_q"},
               [&] { run(tiny_shapes(), {{file}}, {}); });
  tensors.clear();
  Module{160, 128}.append_to(tensors, "transformer_blocks.0.attn.to_q");
  write_file(file, tensors);
  expect_error(ErrorCode::incompatible, {file, "transformer_blocks.0.attn.to_q", "[160, 128]", "is [160, 160]"},
               [&] { run(tiny_shapes(), {{file}}, {}); });
}

}  // namespace
}  // namespace lamina::test
