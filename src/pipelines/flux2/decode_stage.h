#pragma once

#include <string>

#include "ops/latent_layout.h"
#include "pipelines/flux2/flux2_job.h"
#include "pipelines/host_transfer.h"

namespace lamina {

/// The last latents through the VAE's decoder.
class DecodeStage final : public Stage {
 public:
  DecodeStage(const Flux2Model& model, Flux2Job& job) : model_(model), job_(job) {}

  const std::string& name() const override { return name_; }
  std::size_t part() const override { return model_.index_of(Flux2Model::kVaeDecoder); }
  void lay_out(Arena& arena) override;
  void upload(StagingUploader& uploader) override;
  void run_outside(ops::OpContext& context) override;
  std::size_t result_bytes() const override;
  void download(Stream& stream) override;
  void collect() override { job_.image = download_.values(); }

 private:
  const std::string name_ = "decode";
  const Flux2Model& model_;
  Flux2Job& job_;
  Arena* arena_ = nullptr;
  TensorView tokens_;
  TensorView mean_;
  TensorView deviation_;
  TensorView pixels_;
  TensorView image_;
  FloatDownload download_;
};

}  // namespace lamina
