#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/config_reader.h"
#include "models/device_run.h"
#include "models/flux2/flux2_forward.h"
#include "models/flux2/flux2_inputs.h"
#include "models/flux2/flux2_transformer.h"
#include "models/model_groups.h"

namespace lamina::test {

/// A transformer, or a rank's part of one, with its checkpoint.
struct Model {
  Model(const std::string& config_file, Checkpoint weights, const TensorParallel& parallel)
      : checkpoint(std::move(weights)),
        transformer(
            Flux2Config::read(ConfigReader::read(config_file)),
            [this](std::string_view name) { return checkpoint.dtype_of(name); }, parallel) {}

  static Model tiny_shapes(const TensorParallel& parallel = {}) {
    const std::string folder = tiny_shapes_dir() + "/transformer";
    return {folder + "/config.json", Checkpoint::open(folder, "diffusion_pytorch_model"), parallel};
  }
  /// "micro" or "guidance".
  static Model fixture(const std::string& name, const TensorParallel& parallel = {}) {
    return {fixtures_dir() + "/" + name + "_config.json",
            Checkpoint::open_file(fixtures_dir() + "/" + name + "_model.safetensors"), parallel};
  }

  Checkpoint checkpoint;
  Flux2Transformer transformer;
};

/// The inputs of one step on the host; one text a guidance branch.
struct Step {
  std::vector<std::vector<float>> texts;
  std::vector<float> image;
  std::vector<Flux2Position> positions;
  std::int64_t velocity_tokens = 0;
  float timestep = 1.0F;
  std::optional<float> guidance;
};

/// The tensors of a step: branches share everything but text, residual stream and velocity.
class StepOnDevice {
 public:
  StepOnDevice(const Flux2Transformer& transformer, const Step& step, Arena& arena, const ModelGroups& groups = {},
               DType dtype = DType::f32)
      : transformer_(transformer), step_(step), modulation_(transformer.config(), dtype, arena) {
    const Flux2Config& config = transformer.config();
    const auto tokens = static_cast<std::int64_t>(step.positions.size());
    const auto take = [&](std::int64_t rows, std::int64_t columns) { return arena.take(dtype, {rows, columns}); };
    timestep_ = arena.take(dtype, {config.timestep_channels});
    if (step.guidance) guidance_ = arena.take(dtype, {config.timestep_channels});
    image_ = take(static_cast<std::int64_t>(step.image.size()) / config.in_channels, config.in_channels);
    cos_ = arena.take(DType::f32, {tokens, config.head_dim / 2});
    sin_ = arena.take(DType::f32, cos_.shape());
    const Flux2Activations activations(transformer, tokens, dtype, groups, arena);
    for (std::size_t i = 0; i < step.texts.size(); ++i) {
      texts_.push_back(take(tokens - image_.size(0), config.text_channels));
      forwards_.emplace_back(transformer, Flux2Inputs{texts_.back(), image_, cos_, sin_, step.velocity_tokens},
                             modulation_, activations, arena);
    }
  }

  void upload(DeviceRun& run) const {
    const Flux2Config& config = transformer_.config();
    const RopeTable rope = flux2_rope_table(config, step_.positions);
    run.upload(rope.cos, cos_);
    run.upload(rope.sin, sin_);
    run.upload(step_.image, image_);
    run.upload(flux2_sinusoid(step_.timestep, config.timestep_channels), timestep_);
    if (step_.guidance) run.upload(flux2_sinusoid(*step_.guidance, config.timestep_channels), *guidance_);
    for (std::size_t i = 0; i < texts_.size(); ++i) run.upload(step_.texts[i], texts_[i]);
  }

  void run(ops::OpContext& context, const std::function<void(std::size_t unit)>& after_unit = {}) const {
    modulation_.compute(context, transformer_, timestep_, guidance_);
    for (const Flux2Forward& forward : forwards_) forward.begin(context);
    for (std::size_t unit = 0; unit < transformer_.plan().stacks.front().units.size(); ++unit) {
      for (const Flux2Forward& forward : forwards_) forward.run_unit(unit, context);
      if (after_unit) after_unit(unit);
    }
    for (const Flux2Forward& forward : forwards_) forward.finish(context);
  }

  const Flux2Forward& branch(std::size_t index) const { return forwards_.at(index); }

 private:
  const Flux2Transformer& transformer_;
  const Step& step_;
  Flux2Modulation modulation_;
  TensorView timestep_;
  std::optional<TensorView> guidance_;
  TensorView image_;
  TensorView cos_;
  TensorView sin_;
  std::vector<TensorView> texts_;
  std::deque<Flux2Forward> forwards_;
};

inline std::vector<Flux2Position> joint(std::vector<Flux2Position> first, const std::vector<Flux2Position>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// The first step of a text-to-image case: its noise [1, channels, height, width] as tokens.
inline Step first_step(const Checkpoint& fixtures, const std::string& name, std::vector<std::vector<float>> texts) {
  const std::vector<float> noise = read_floats(fixtures, name + ".noise");
  const Shape shape = fixtures.find(name + ".noise")->shape;
  const auto channels = static_cast<std::size_t>(shape[1]);
  const auto tokens = static_cast<std::size_t>(shape[2] * shape[3]);
  Step step;
  step.texts = std::move(texts);
  step.velocity_tokens = shape[2] * shape[3];
  step.positions = joint(flux2_text_positions(512), flux2_image_positions(0, shape[2], shape[3]));
  for (std::size_t token = 0; token < tokens; ++token)
    for (std::size_t channel = 0; channel < channels; ++channel) step.image.push_back(noise[channel * tokens + token]);
  return step;
}

}  // namespace lamina::test
