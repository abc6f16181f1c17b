#include <gtest/gtest.h>

#include <cstring>

#include "engine/engine_fixture.h"
#include "engine/own_checkpoint.h"
#include "models/read_floats.h"
#include "pipelines/registry.h"
#include "tensor/bf16.h"

namespace lamina::test {
namespace {

namespace fs = std::filesystem;

/// The bits of the nearest binary16, ties to even, for magnitudes below 2^15. Below 2^-14, the step is 2^-24.
std::uint16_t to_f16(float value) {
  const float magnitude = std::fabs(value);
  const int exponent = magnitude < 0x1p-14F ? -14 : std::ilogb(magnitude);
  const long steps = std::lrint(std::ldexp(magnitude, 10 - exponent));  // 1024 and more, below it subnormals
  const long bits = ((exponent + 14) << 10) + steps;
  return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
}

/// The value of those bits.
float nearest_f16(float value) {
  const float magnitude = std::fabs(value);
  const int exponent = magnitude < 0x1p-14F ? -14 : std::ilogb(magnitude);
  return std::copysign(static_cast<float>(std::ldexp(std::lrint(std::ldexp(magnitude, 10 - exponent)), exponent - 10)),
                       value);
}

template <typename Element, typename Convert>
OwnedTensor converted(const TensorSpec& spec, DType dtype, const std::vector<float>& values, Convert convert) {
  OwnedTensor tensor{{spec.name, dtype, spec.shape}, {}};
  for (const float value : values) {
    const Element element = convert(value);
    const auto* bytes = reinterpret_cast<const std::byte*>(&element);
    tensor.bytes.insert(tensor.bytes.end(), bytes, bytes + sizeof element);
  }
  return tensor;
}

struct Component {
  const char* folder;
  const char* stem;
};

constexpr std::array kComponents{Component{"text_encoder", "model"},
                                 Component{"transformer", "diffusion_pytorch_model"},
                                 Component{"vae", "diffusion_pytorch_model"}};

/// The demo model with all weights in F16, or as what those should be in the model: BF16, and F32 for the statistics of
/// latents, which are none of its parameters.
fs::path half_model(const fs::path& folder, bool as_f16, const std::string& infix = "") {
  const fs::path model = folder / "model";
  for (const char* entry : {"model_index.json", "scheduler", "tokenizer"})
    if (fs::create_directories(model); true) fs::create_symlink(tiny_shapes() / entry, model / entry);
  for (const Component& component : kComponents) {
    const fs::path from = tiny_shapes() / component.folder;
    const Checkpoint checkpoint = Checkpoint::open(from, component.stem);
    OwnedTensors tensors;
    for (const TensorSpec& spec : checkpoint.tensors()) {
      if (spec.dtype != DType::f32 && spec.dtype != DType::bf16) continue;
      const std::vector<float> values = read_floats(checkpoint, spec);
      if (as_f16)
        tensors.push_back(converted<std::uint16_t>(spec, DType::f16, values, to_f16));
      else if (spec.name.starts_with("bn."))
        tensors.push_back(converted<float>(spec, DType::f32, values, nearest_f16));
      else
        tensors.push_back(converted<std::uint16_t>(spec, DType::bf16, values,
                                                   [](float value) { return narrow(nearest_f16(value)); }));
    }
    fs::create_directories(model / component.folder);
    fs::copy_file(from / "config.json", model / component.folder / "config.json");
    write_file(model / component.folder / (std::string(component.stem) + infix + ".safetensors"), tensors);
  }
  return model;
}

GenerateResult run(const fs::path& model, const OffloadOptions& options, const std::string& variant = "") {
  Generator generator(create_cpu_device({}), open_pipeline(ModelFolder::open(model), {.variant = variant}), options);
  return generator.generate(small_request());
}

TEST(HalfPrecision, EveryComponentIsConvertedAlikeWithBothBackingsAndWithoutOffload) {
  const ScratchFolder halves;
  const ScratchFolder reference;
  const GenerateResult expected = run(half_model(reference.path(), false), {});
  const fs::path model = half_model(halves.path(), true, ".fp16");
  for (const OffloadOptions& options :
       {OffloadOptions{}, OffloadOptions{.stream = true, .host_backing = HostBackingChoice::mapped},
        OffloadOptions{.stream = true, .host_backing = HostBackingChoice::private_pages}}) {
    const GenerateResult result = run(model, options, "fp16");
    EXPECT_EQ(result.picture.rgb, expected.picture.rgb);
    EXPECT_EQ(tensor_of(result, "latents").values, tensor_of(expected, "latents").values);
  }
}

}  // namespace
}  // namespace lamina::test
