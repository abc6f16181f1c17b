#include "pipelines/flux2/encode_prompt_stage.h"

#include "models/qwen3/qwen3_inputs.h"

namespace lamina {

void EncodePromptStage::lay_out(Arena& arena) {
  const Qwen3Config& config = model_.text_encoder().config();
  const auto tokens = static_cast<std::int64_t>(kPromptLength);
  embeddings_.clear();
  samples_.clear();
  downloads_.clear();
  cos_ = arena.take(DType::f32, {tokens, config.head_dim / 2});
  sin_ = arena.take(DType::f32, {tokens, config.head_dim / 2});
  const Qwen3Activations activations(model_.text_encoder(), tokens, model_.activations(), model_.text_encoder_group(),
                                     arena);
  for (const PromptTokens& prompt : job_.prompts) {
    embeddings_.push_back(arena.take(model_.activations(), {tokens, config.hidden}));
    samples_.emplace_back(model_.text_encoder(),
                          Qwen3Inputs{embeddings_.back(), cos_, sin_, static_cast<std::int64_t>(prompt.real_count)},
                          activations, arena);
  }
}

void EncodePromptStage::upload(StagingUploader& uploader) {
  const RopeTable rope = qwen3_rope_table(model_.text_encoder().config(), static_cast<std::int64_t>(kPromptLength));
  upload_floats(uploader, rope.cos, cos_);
  upload_floats(uploader, rope.sin, sin_);
  for (std::size_t i = 0; i < job_.prompts.size(); ++i)
    upload_floats(uploader, model_.embed(job_.prompts[i].ids), embeddings_[i]);
}

std::vector<PassMember*> EncodePromptStage::members() {
  std::vector<PassMember*> members;
  for (Qwen3Sample& sample : samples_) members.push_back(&sample);
  return members;
}

std::size_t EncodePromptStage::result_bytes() const {
  std::size_t size = 0;
  for (const Qwen3Sample& sample : samples_)
    size += FloatDownload::host_bytes(model_.activations(), sample.hidden_states().shape().elements());
  return size;
}

void EncodePromptStage::download(Stream& stream) {
  for (const Qwen3Sample& sample : samples_) {
    const TensorView states = sample.hidden_states();
    downloads_.emplace_back(stream.device(), states.dtype(), states.shape().elements()).copy_async(stream, states);
  }
}

void EncodePromptStage::collect() {
  for (const FloatDownload& download : downloads_) job_.prompt_embeds.push_back(download.values());
}

}  // namespace lamina
