#include <gtest/gtest.h>

#include <algorithm>
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
#include "models/flux2_vae/flux2_vae_tiles.h"
#include "ops/conv.h"
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

  std::vector<float> decode(const std::vector<float>& latent, std::int64_t height, std::int64_t width) {
    Flux2VaeDecoder decoder(config_, dtype_of_);
    return run_exactly(decoder, latent, {height, width, config_.latent_channels}, {8 * height, 8 * width, 3},
                       [&](const Tensors& tensors, ops::OpContext& context) {
                         decoder.decode(context, tensors.arena, tensors.input, tensors.output);
                       });
  }

  std::vector<float> encode(const std::vector<float>& image, std::int64_t height, std::int64_t width) {
    Flux2VaeEncoder encoder(config_, dtype_of_);
    return run_exactly(encoder, image, {height, width, 3}, {height / 8, width / 8, config_.latent_channels},
                       [&](const Tensors& tensors, ops::OpContext& context) {
                         encoder.encode(context, tensors.arena, tensors.input, tensors.output);
                       });
  }

  std::vector<float> decode_in_tiles(const std::vector<float>& latent, std::int64_t height, std::int64_t width) {
    Flux2VaeDecoder decoder(config_, dtype_of_);
    return run_exactly(decoder, latent, {height, width, config_.latent_channels}, {8 * height, 8 * width, 3},
                       [&](const Tensors& tensors, ops::OpContext& context) {
                         Flux2VaeTiles(config_).run(context, tensors.arena, tensors.input, tensors.output,
                                                    [&](const ConstTensorView& in, const TensorView& out) {
                                                      decoder.decode(context, tensors.arena, in, out);
                                                    });
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

TEST_F(Flux2Vae, NeedsNoMoreMemoryThanItsLargestLayer) {
  // The first residual layer at full resolution holds its input and the normalised input of 48 channels, and what the
  // first convolution makes of them, of 32 channels. In the encoder all three have 32.
  Flux2VaeDecoder decoder(config_, dtype_of_);
  Flux2VaeEncoder encoder(config_, dtype_of_);
  const ShapeOnlyBinding bind_decoder(decoder.parameters());
  const ShapeOnlyBinding bind_encoder(encoder.parameters());
  const TensorView latent(nullptr, DType::f32, {16, 16, 32});
  const TensorView image(nullptr, DType::f32, {128, 128, 3});
  ops::OpContext context = ops::OpContext::planning(device_.stream());
  constexpr std::size_t kPixels = 128 * 128;

  Arena decoding;
  decoder.decode(context, decoding, latent, image);
  EXPECT_EQ(decoding.peak_bytes(), kPixels * (48 + 48 + 32) * sizeof(float));
  EXPECT_EQ(decoding.used_bytes(), 0U);

  Arena encoding;
  encoder.encode(context, encoding, image, latent);
  EXPECT_EQ(encoding.peak_bytes(), kPixels * (32 + 32 + 32) * sizeof(float));
  EXPECT_EQ(encoding.used_bytes(), 0U);
}

using Span = Flux2VaeTiles::Span;

TEST_F(Flux2Vae, TilesOverlapByAQuarterAndEndAtTheEdge) {
  const Flux2VaeTiles tiles(config_);  // 128 pixels, 16 latent ones
  EXPECT_EQ(tiles.spans(2), (std::vector<Span>{{0, 2, 0, 0}}));
  EXPECT_EQ(tiles.spans(16), (std::vector<Span>{{0, 16, 0, 0}}));
  EXPECT_EQ(tiles.spans(18), (std::vector<Span>{{0, 16, 0, 4}, {12, 18, 4, 0}}));
  EXPECT_EQ(tiles.spans(28), (std::vector<Span>{{0, 16, 0, 4}, {12, 28, 4, 0}}));
  EXPECT_EQ(tiles.spans(30), (std::vector<Span>{{0, 16, 0, 4}, {12, 28, 4, 4}, {24, 30, 4, 0}}));
  EXPECT_EQ(tiles.count(16, 16), 1U);
  EXPECT_EQ(tiles.count(18, 30), 6U);
}

/// Where a pixel depends on no other one, tiles make no difference.
TEST_F(Flux2Vae, TilesOfLocalWorkAreTheWhole) {
  const Shape small{26, 34, 3};
  const Shape large{52, 68, 3};
  const std::vector<float> picture = fixture("vae.image");
  const std::vector<float> input(picture.begin(), picture.begin() + small.elements());
  const DeviceBuffer memory = device_.device().allocate(4 * kMiB, "test");
  Arena arena(memory.data(), memory.size_bytes());
  ops::OpContext context(device_.stream(), memory.data(), 0);
  const TensorView from = arena.take(DType::f32, small);
  const TensorView whole = arena.take(DType::f32, large);
  const TensorView tiled = arena.take(DType::f32, large);
  device_.upload(input, from);
  const auto twice = [&](const ConstTensorView& in, const TensorView& out) {
    ops::upsample_nearest_2x(context, in, out);
  };
  twice(from, whole);
  Flux2VaeTiles(config_).run(context, arena, from, tiled, twice);
  expect_near(device_.download(tiled), device_.download(whole), 1e-6F, "tiled");
}

/// How much `difference` [height, width, 3] changes from each column to the next one, in the mean over the column.
std::vector<double> column_steps(const std::vector<double>& difference, std::size_t height, std::size_t width) {
  std::vector<double> steps(width - 1);
  for (std::size_t row = 0; row < height; ++row)
    for (std::size_t i = 0; i < 3 * (width - 1); ++i) {
      const std::size_t at = row * 3 * width + i;
      steps[i / 3] += std::abs(difference[at + 3] - difference[at]) / static_cast<double>(3 * height);
    }
  return steps;
}

/// The demo model's VAE was trained on pictures of one tile, so that norms and attention know nothing but whole
/// pictures: tiles change more here than they would in a picture of many objects. But no step shows where a tile begins
/// or ends: nowhere is it larger than what decoding in tiles changes all over the place.
TEST_F(Flux2Vae, DecodesTheRecordedLatentInTilesWithoutSeams) {
  constexpr double kLevel = 2.0 / 255;
  constexpr std::size_t kSecondBegins = 96;
  constexpr std::size_t kFirstEnds = 128;
  const std::vector<float> whole = channels_last(fixture("vae.decoded"), 3);
  const std::vector<float> tiled = decode_in_tiles(channels_last(fixture("vae.latent"), 32), 12, 20);
  ASSERT_EQ(tiled.size(), whole.size());
  std::vector<double> difference;
  double mean = 0;
  for (std::size_t i = 0; i < tiled.size(); ++i) {
    difference.push_back(double{tiled[i]} - double{whole[i]});
    mean += std::abs(difference.back()) / static_cast<double>(tiled.size());
  }
  EXPECT_LE(mean, 4 * kLevel);
  std::vector<double> steps = column_steps(difference, 96, 160);
  const double seam = std::max(steps[kSecondBegins - 1], steps[kFirstEnds - 1]);
  steps[kSecondBegins - 1] = steps[kFirstEnds - 1] = 0;
  EXPECT_LE(seam, *std::max_element(steps.begin(), steps.end()));
}

TEST_F(Flux2Vae, MemoryOfTilesDoesNotGrowWithThePicture) {
  Flux2VaeDecoder decoder(config_, dtype_of_);
  const ShapeOnlyBinding bind(decoder.parameters());
  const auto peaks = [&](std::int64_t side) {
    ops::OpContext context = ops::OpContext::planning(device_.stream());
    Arena arena;
    const TensorView latent(nullptr, DType::f32, {side, side, 32});
    const TensorView image(nullptr, DType::f32, {8 * side, 8 * side, 3});
    Flux2VaeTiles(config_).run(context, arena, latent, image, [&](const ConstTensorView& in, const TensorView& out) {
      decoder.decode(context, arena, in, out);
    });
    EXPECT_EQ(arena.used_bytes(), 0U);
    return std::pair(arena.peak_bytes(), context.peak_bytes());
  };
  EXPECT_EQ(peaks(64), peaks(256));
  // One tile's latent and picture beside what decoding it takes, see above.
  EXPECT_EQ(peaks(64).first, (16 * 16 * 32 + 128 * 128 * (3 + 48 + 48 + 32)) * sizeof(float));
}

}  // namespace
}  // namespace lamina
