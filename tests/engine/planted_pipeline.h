#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "pipelines/pipeline.h"

namespace lamina::test {

/// Where a sample goes wrong.
enum class Moment { start, upload, collect, result };

/// Called with each moment of each stage that is about to run; what it throws is what the stage throws. `start` and
/// `result` are of no stage; of the request's two starts on a rank the first prepares it.
using Plant = std::function<void(const GenerateRequest&, Moment, const std::string& stage)>;

/// Hands everything on to another stage.
class PlantedStage : public Stage {
 public:
  PlantedStage(Stage& stage, const GenerateRequest& request, const Plant& plant)
      : stage_(stage), request_(request), plant_(plant) {}

  const std::string& name() const override { return stage_.name(); }
  std::size_t part() const override { return stage_.part(); }
  bool divide() override { return stage_.divide(); }
  bool is_divided() const override { return stage_.is_divided(); }
  void lay_out(Arena& arena) override { stage_.lay_out(arena); }
  void upload(StagingUploader& uploader) override {
    plant_(request_, Moment::upload, name());
    stage_.upload(uploader);
  }
  std::size_t stack() const override { return stage_.stack(); }
  std::size_t passes() const override { return stage_.passes(); }
  std::vector<PassMember*> members() override { return stage_.members(); }
  void run_outside(ops::OpContext& context) override { stage_.run_outside(context); }
  std::size_t result_bytes() const override { return stage_.result_bytes(); }
  void download(Stream& stream) override { stage_.download(stream); }
  void collect() override {
    plant_(request_, Moment::collect, name());
    stage_.collect();
  }

 private:
  Stage& stage_;
  const GenerateRequest& request_;
  const Plant& plant_;
};

class PlantedGeneration : public Generation {
 public:
  PlantedGeneration(std::unique_ptr<Generation> generation, const GenerateRequest& request, const Plant& plant)
      : generation_(std::move(generation)), request_(request), plant_(plant) {
    for (Stage* stage : generation_->stages())
      stages_.push_back(std::make_unique<PlantedStage>(*stage, request_, plant_));
  }

  std::vector<Stage*> stages() override {
    std::vector<Stage*> stages;
    for (const auto& stage : stages_) stages.push_back(stage.get());
    return stages;
  }
  const std::vector<std::string>& notes() const override { return generation_->notes(); }
  GenerateResult result() override {
    plant_(request_, Moment::result, {});
    return generation_->result();
  }

 private:
  std::unique_ptr<Generation> generation_;
  GenerateRequest request_;
  const Plant& plant_;
  std::vector<std::unique_ptr<PlantedStage>> stages_;
};

/// A pipeline in which something goes wrong.
class PlantedPipeline : public Pipeline {
 public:
  PlantedPipeline(std::unique_ptr<Pipeline> pipeline, Plant plant)
      : pipeline_(std::move(pipeline)), plant_(std::move(plant)) {}

  const std::vector<ModelPart>& parts() const override { return pipeline_->parts(); }
  DType activations() const override { return pipeline_->activations(); }
  std::unique_ptr<Generation> start(const GenerateRequest& request) override {
    plant_(request, Moment::start, {});
    return std::make_unique<PlantedGeneration>(pipeline_->start(request), request, plant_);
  }

 private:
  std::unique_ptr<Pipeline> pipeline_;
  Plant plant_;
};

}  // namespace lamina::test
