#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/config_reader.h"
#include "comm/communicator.h"
#include "models/device_run.h"
#include "models/qwen3/qwen3_inputs.h"
#include "models/qwen3/qwen3_sample.h"
#include "models/qwen3/qwen3_text_encoder.h"

namespace lamina::test {

using Ids = std::vector<std::int32_t>;

inline constexpr std::int32_t kPadding = 403;
/// The chat frame around an empty prompt.
inline const Ids kEmptyPrompt{404, 397, 198, 405, 198, 404, 401, 198, 406, 198, 198, 407, 198, 198};

inline std::string encoder_dir() {
  return tiny_shapes_dir() + "/text_encoder";
}
inline std::string config_file() {
  return encoder_dir() + "/config.json";
}

/// The text encoder of tiny-shapes, or a rank's part of it.
struct Encoder {
  explicit Encoder(const TensorParallel& part = {}) : parallel(part) {}

  TensorParallel parallel;
  Checkpoint checkpoint = Checkpoint::open(encoder_dir(), "model");
  Qwen3TextEncoder encoder{Qwen3Config::read(ConfigReader::read(config_file())),
                           [this](std::string_view name) { return checkpoint.dtype_of(name); }, parallel};
};

/// The tensors of some prompts that share activations and tables.
class PromptsOnDevice {
 public:
  PromptsOnDevice(const Qwen3TextEncoder& encoder, const std::vector<Ids>& prompts, Arena& arena,
                  Communicator* group = nullptr)
      : encoder_(encoder), prompts_(prompts) {
    const Qwen3Config& config = encoder.config();
    constexpr std::int64_t kTokens = Qwen3Config::kPromptTokens;
    cos_ = arena.take(DType::f32, {kTokens, config.head_dim / 2});
    sin_ = arena.take(DType::f32, {kTokens, config.head_dim / 2});
    const Qwen3Activations activations(encoder, kTokens, DType::f32, group, arena);
    for (const Ids& ids : prompts) {
      embeddings_.push_back(arena.take(DType::f32, {kTokens, config.hidden}));
      const Qwen3Inputs inputs{embeddings_.back(), cos_, sin_, static_cast<std::int64_t>(ids.size())};
      samples_.emplace_back(encoder, inputs, activations, arena);
    }
  }

  void upload(DeviceRun& run, const ConstTensorView& embedding) const {
    const RopeTable rope = qwen3_rope_table(encoder_.config(), Qwen3Config::kPromptTokens);
    run.upload(rope.cos, cos_);
    run.upload(rope.sin, sin_);
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      Ids padded = prompts_[i];
      padded.resize(Qwen3Config::kPromptTokens, kPadding);
      run.upload(gather_embeddings(embedding, padded), embeddings_[i]);
    }
  }

  void run(ops::OpContext& context) {
    for (Qwen3Sample& sample : samples_) sample.begin(context);
    for (std::size_t unit = 0; unit < encoder_.plan().stacks.front().units.size(); ++unit)
      for (Qwen3Sample& sample : samples_) sample.run_unit(unit, context);
    for (Qwen3Sample& sample : samples_) sample.finish(context);
  }

  const Qwen3Sample& sample(std::size_t index) const { return samples_.at(index); }

 private:
  const Qwen3TextEncoder& encoder_;
  const std::vector<Ids>& prompts_;
  TensorView cos_;
  TensorView sin_;
  std::vector<TensorView> embeddings_;
  std::deque<Qwen3Sample> samples_;
};

}  // namespace lamina::test
