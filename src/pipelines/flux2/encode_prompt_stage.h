#pragma once

#include <string>
#include <vector>

#include "models/qwen3/qwen3_sample.h"
#include "pipelines/flux2/flux2_job.h"
#include "pipelines/host_transfer.h"

namespace lamina {

/// Prompts through the text encoder, all of them in one traversal.
class EncodePromptStage final : public Stage {
 public:
  EncodePromptStage(const Flux2Model& model, Flux2Job& job) : model_(model), job_(job) {}

  const std::string& name() const override { return name_; }
  std::size_t part() const override { return model_.index_of(Flux2Model::kTextEncoder); }
  void lay_out(Arena& arena) override;
  void upload(StagingUploader& uploader) override;
  std::size_t passes() const override { return 1; }
  std::vector<PassMember*> members() override;
  std::size_t result_bytes() const override;
  void download(Stream& stream) override;
  void collect() override;

 private:
  const std::string name_ = "encode prompt";
  const Flux2Model& model_;
  Flux2Job& job_;
  TensorView cos_;
  TensorView sin_;
  std::vector<TensorView> embeddings_;
  std::vector<Qwen3Sample> samples_;
  std::vector<FloatDownload> downloads_;
};

}  // namespace lamina
