#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/config_reader.h"
#include "models/bind_all.h"
#include "models/device_run.h"
#include "models/flux2_vae/flux2_latent_statistics.h"
#include "models/flux2_vae/flux2_vae_decoder.h"
#include "models/flux2_vae/flux2_vae_encoder.h"
#include "ops/latent_layout.h"

namespace lamina {
namespace {

using test::BoundWeights;
using test::DeviceRun;
using test::ExactMemory;
using test::expect_near;
using test::fixtures_dir;
using test::read_floats;
using test::tiny_shapes_dir;

constexpr float kTolerance = 2e-4F;

/// [channels, height, width] to [height, width, channels].
std::vector<float> channels_last(const std::vector<float>& values, std::int64_t channels) {
  const auto pixels = static_cast<std::int64_t>(values.size()) / channels;
  std::vector<float> result(values.size());
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t p = 0; p < pixels; ++p) result[p * channels + c] = values[c * pixels + p];
  return result;
}

std::vector<TensorSpec> members(const OffloadPlan& plan) {
  std::vector<TensorSpec> result;
  for (const ParameterGroup& group : plan.outside)
    result.insert(result.end(), group.members.begin(), group.members.end());
  return result;
}

/// The parts of the demo model and its recorded outputs.
class Flux2Vae : public testing::Test {
 protected:
  /// A part's input and output, and the arena that it runs in.
  struct Tensors {
    TensorView input;
    TensorView output;
    Arena& arena;
  };
  using Run = std::function<void(const Tensors&, ops::OpContext&)>;

  /// Runs `part` with just the memory that it says it needs.
  template <typename Part>
  std::vector<float> run_exactly(Part& part, const std::vector<float>& input, const Shape& input_shape,
                                 const Shape& output_shape, const Run& run) {
    const BoundWeights bound(device_.device(), device_.stream(), checkpoint_, part.plan(), part.parameters());
    const auto lay_out = [&](Arena& arena) {
      const TensorView in = arena.take(DType::f32, input_shape);
      const TensorView out = arena.take(DType::f32, output_shape);
      return std::make_unique<Tensors>(Tensors{in, out, arena});
    };
    const ExactMemory memory(device_, part.parameters(), lay_out, run);
    Arena arena = memory.arena();
    ops::OpContext context = memory.context(device_);
    const auto tensors = lay_out(arena);
    device_.upload(input, tensors->input);
    run(*tensors, context);
    std::vector<float> output = device_.download(tensors->output);
    memory.expect_used_up(arena, context);
    return output;
  }

  std::vector<float> decode(const std::vector<float>& latent, std::int64_t height, std::int64_t width,
                            const BandOptions& options = {}) {
    Flux2VaeDecoder decoder(config_, dtype_of_);
    return run_exactly(decoder, latent, {height, width, config_.latent_channels}, {8 * height, 8 * width, 3},
                       [&](const Tensors& tensors, ops::OpContext& context) {
                         decoder.decode(context, tensors.arena, tensors.input, tensors.output, options);
                       });
  }

  std::vector<float> encode(const std::vector<float>& image, std::int64_t height, std::int64_t width,
                            const BandOptions& options = {}) {
    Flux2VaeEncoder encoder(config_, dtype_of_);
    return run_exactly(encoder, image, {height, width, 3}, {height / 8, width / 8, config_.latent_channels},
                       [&](const Tensors& tensors, ops::OpContext& context) {
                         encoder.encode(context, tensors.arena, tensors.input, tensors.output, options);
                       });
  }

  /// Runs one of the layout operations with the checkpoint's statistics.
  template <typename Layout>
  std::vector<float> change_layout(Layout layout, const std::vector<float>& input, const Shape& input_shape,
                                   const Shape& output_shape) {
    const auto statistics = Flux2LatentStatistics::read(config_, checkpoint_);
    const DeviceBuffer memory = device_.device().allocate(4 * kMiB, "test");
    Arena arena(memory.data(), memory.size_bytes());
    ops::OpContext context(device_.stream(), memory.data(), 0);
    const TensorView mean = arena.take(DType::f32, {config_.packed_channels()});
    const TensorView deviation = arena.take(DType::f32, {config_.packed_channels()});
    const TensorView from = arena.take(DType::f32, input_shape);
    const TensorView to = arena.take(DType::f32, output_shape);
    device_.upload(statistics.mean, mean);
    device_.upload(statistics.deviation, deviation);
    device_.upload(input, from);
    layout(context, from, ops::LatentNormalisation{mean, deviation}, to);
    return device_.download(to);
  }

  std::vector<float> fixture(const std::string& name) const { return read_floats(fixtures_, name); }

  DeviceRun device_;
  Flux2VaeConfig config_ = Flux2VaeConfig::read(ConfigReader::read(tiny_shapes_dir() + "/vae/config.json"));
  Checkpoint checkpoint_ = Checkpoint::open(tiny_shapes_dir() + "/vae", "diffusion_pytorch_model");
  Checkpoint fixtures_ = Checkpoint::open_file(fixtures_dir() + "/fixtures.safetensors");
  DTypeOf dtype_of_ = [this](std::string_view name) { return checkpoint_.dtype_of(name); };
};

TEST_F(Flux2Vae, PlansNameEveryTensorOfTheCheckpoint) {
  std::vector<TensorSpec> named = members(Flux2VaeEncoder(config_, dtype_of_).plan());
  const std::vector<TensorSpec> decoder = members(Flux2VaeDecoder(config_, dtype_of_).plan());
  const std::vector<TensorSpec> statistics = Flux2LatentStatistics::tensors(config_, dtype_of_);
  named.insert(named.end(), decoder.begin(), decoder.end());
  named.insert(named.end(), statistics.begin(), statistics.end());
  // A counter of training steps, which nobody needs.
  named.push_back({"bn.num_batches_tracked", DType::i64, {}});
  std::sort(named.begin(), named.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  EXPECT_EQ(named, checkpoint_.tensors());
  EXPECT_EQ(named.size(), 187U);
}

TEST_F(Flux2Vae, DecodesTheRecordedLatent) {
  const std::vector<float> image = decode(channels_last(fixture("vae.latent"), 32), 12, 20);
  expect_near(image, channels_last(fixture("vae.decoded"), 3), kTolerance, "decoded");
}

TEST_F(Flux2Vae, EncodesTheRecordedImage) {
  const std::vector<float> mean = encode(channels_last(fixture("vae.image"), 3), 64, 96);
  expect_near(mean, channels_last(fixture("vae.encoded_mean"), 32), kTolerance, "mean");
}

TEST_F(Flux2Vae, DecodesTheLastLatentsOfAPictureToThePicture) {
  const std::vector<float> steps = fixture("cfg128.latents");
  const std::vector<float> tokens(steps.end() - 64 * 128, steps.end());
  const std::vector<float> latent = change_layout(ops::unpack_latents, tokens, {64, 128}, {16, 16, 32});
  std::vector<float> image = decode(latent, 16, 16);
  for (float& value : image) value = std::clamp(value / 2 + 0.5F, 0.0F, 1.0F);
  expect_near(image, channels_last(fixture("cfg128.image"), 3), kTolerance, "image");
}

TEST_F(Flux2Vae, EncodesAReferenceImageToTheTokensTheTransformerGot) {
  const TensorSpec spec{"edit.input", DType::u8, {3, 128, 128}};
  const auto* pixels = fixtures_.view(spec).as<std::uint8_t>();
  std::vector<float> image(pixels, pixels + spec.shape.elements());
  for (float& value : image) value = value / 127.5F - 1.0F;
  const std::vector<float> mean = encode(channels_last(image, 3), 128, 128);
  const std::vector<float> tokens = change_layout(ops::pack_latents, mean, {16, 16, 32}, {64, 128});
  const std::vector<float> input = fixture("edit.model_input0");
  expect_near(tokens, std::vector<float>(input.end() - 64 * 128, input.end()), kTolerance, "tokens");
}

/// Bands of one row, of two or three, and of the whole map: halos, edges and moments of every kind.
constexpr std::array<std::int64_t, 4> kBandElements{1, 50000, 200000, 1 << 22};

TEST_F(Flux2Vae, BandsOfAnySizeGiveTheRecordedImage) {
  const std::vector<float> latent = channels_last(fixture("vae.latent"), 32);
  const std::vector<float> expected = channels_last(fixture("vae.decoded"), 3);
  for (const std::int64_t elements : kBandElements) {
    SCOPED_TRACE(elements);
    const std::vector<float> image = decode(latent, 12, 20, {MapPlace::device, elements});
    expect_near(image, expected, kTolerance, "decoded");
    EXPECT_EQ(decode(latent, 12, 20, {MapPlace::host, elements}), image);
  }
}

TEST_F(Flux2Vae, BandsOfAnySizeGiveTheRecordedMean) {
  const std::vector<float> image = channels_last(fixture("vae.image"), 3);
  const std::vector<float> expected = channels_last(fixture("vae.encoded_mean"), 32);
  for (const std::int64_t elements : kBandElements) {
    SCOPED_TRACE(elements);
    const std::vector<float> mean = encode(image, 64, 96, {MapPlace::device, elements});
    expect_near(mean, expected, kTolerance, "mean");
    EXPECT_EQ(encode(image, 64, 96, {MapPlace::host, elements}), mean);
  }
}

/// While the first residual layer at full resolution makes its output, 128 x 128 pixels hold 48 + 32 + 32 channels,
/// behind the hole that the smaller input of the change of resolution left. A band of 64 rows holds two times 32
/// channels, one of them with two rows more. In the encoder all have 32, and the input becomes the output.
TEST_F(Flux2Vae, NeedsNoMoreMemoryThanItsLargestLayer) {
  Flux2VaeDecoder decoder(config_, dtype_of_);
  Flux2VaeEncoder encoder(config_, dtype_of_);
  const ShapeOnlyBinding bind_decoder(decoder.parameters());
  const ShapeOnlyBinding bind_encoder(encoder.parameters());
  const TensorView latent(nullptr, DType::f32, {16, 16, 32});
  const TensorView image(nullptr, DType::f32, {128, 128, 3});
  ops::OpContext context = ops::OpContext::planning(device_.stream());
  constexpr std::size_t kPixels = 128 * 128;
  constexpr std::size_t kBand = (66 + 64) * 128 * 32;
  constexpr std::size_t kSmall = 128 * kKiB;  // moments, normalisations, and where earlier maps left holes

  Arena decoding;
  EXPECT_EQ(decoder.decode(context, decoding, latent, image), 0U);
  const std::size_t decoder_bytes = (kPixels * (48 / 4 + 48 + 32 + 32) + kBand) * sizeof(float);
  EXPECT_GE(decoding.peak_bytes(), decoder_bytes);
  EXPECT_LE(decoding.peak_bytes(), decoder_bytes + kSmall);
  EXPECT_EQ(decoding.used_bytes(), 0U);

  Arena encoding;
  EXPECT_EQ(encoder.encode(context, encoding, image, latent), 0U);
  const std::size_t encoder_bytes = (kPixels * (32 + 32) + kBand) * sizeof(float);
  EXPECT_GE(encoding.peak_bytes(), encoder_bytes);
  EXPECT_LE(encoding.peak_bytes(), encoder_bytes + kSmall);
  EXPECT_EQ(encoding.used_bytes(), 0U);
}

/// Apart from attention at the latent's resolution, the device holds bands alone.
TEST_F(Flux2Vae, MapsOnTheHostTakeNoDeviceMemory) {
  Flux2VaeDecoder decoder(config_, dtype_of_);
  const ShapeOnlyBinding bind(decoder.parameters());
  const TensorView latent(nullptr, DType::f32, {64, 64, 32});
  const TensorView image(nullptr, DType::f32, {512, 512, 3});
  const auto bytes = [&](MapPlace place) {
    ops::OpContext context = ops::OpContext::planning(device_.stream());
    Arena arena;
    const std::size_t pinned = decoder.decode(context, arena, latent, image, {.place = place});
    return std::pair(arena.peak_bytes(), pinned);
  };
  const auto [device_bytes, none] = bytes(MapPlace::device);
  const auto [band_bytes, pinned] = bytes(MapPlace::host);
  EXPECT_EQ(none, 0U);
  EXPECT_GE(pinned, 512 * 512 * (48 + 32 + 32) * sizeof(float));
  EXPECT_LT(2 * band_bytes, device_bytes);
}

}  // namespace
}  // namespace lamina
