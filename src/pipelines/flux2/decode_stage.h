#pragma once

#include <string>

#include "ops/latent_layout.h"
#include "pipelines/flux2/flux2_job.h"
#include "pipelines/flux2/vae_division.h"
#include "pipelines/host_transfer.h"

namespace lamina {

/// The last latents through the VAE's decoder.
class DecodeStage final : public Stage {
 public:
  DecodeStage(const Flux2Model& model, Flux2Job& job);

  const std::string& name() const override { return name_; }
  std::size_t part() const override { return model_.index_of(Flux2Model::kVaeDecoder); }
  bool divide() override { return division_.divide(); }
  bool is_divided() const override { return division_.is_divided(); }
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
  VaeDivision division_;
  Arena* arena_ = nullptr;
  TensorView tokens_;
  TensorView mean_;
  TensorView deviation_;
  TensorView pixels_;
  TensorView image_;
  std::size_t map_bytes_ = 0;  ///< of host memory, while it runs
  FloatDownload download_;
};

}  // namespace lamina
