#pragma once

#include <string>

#include "ops/latent_layout.h"
#include "pipelines/flux2/flux2_job.h"
#include "pipelines/host_transfer.h"

namespace lamina {

/// One reference picture through the VAE's encoder to latent tokens.
class EncodeReferenceStage final : public Stage {
 public:
  EncodeReferenceStage(const Flux2Model& model, Flux2Reference& reference) : model_(model), reference_(reference) {}

  const std::string& name() const override { return name_; }
  std::size_t part() const override { return model_.index_of(Flux2Model::kVaeEncoder); }
  void lay_out(Arena& arena) override;
  void upload(StagingUploader& uploader) override;
  void run_outside(ops::OpContext& context) override;
  std::size_t result_bytes() const override;
  void download(Stream& stream) override;
  void collect() override { reference_.tokens = download_.values(); }

 private:
  const std::string name_ = "encode reference";
  const Flux2Model& model_;
  Flux2Reference& reference_;
  Arena* arena_ = nullptr;
  TensorView image_;
  TensorView pixels_;
  TensorView mean_;
  TensorView deviation_;
  TensorView tokens_;
  FloatDownload download_;
};

}  // namespace lamina
