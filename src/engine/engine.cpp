#include "lamina/engine.h"

#include <optional>
#include <utility>

#include "base/host_memory_budget.h"
#include "engine/config/options.h"
#include "engine/config/select_device.h"
#include "engine/generator.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina {
class Engine::Impl {
 public:
  explicit Impl(const EngineConfig& config) {
    const OffloadOptions options = offload_options(config);
    const DeviceChoice device = choose_device(config.device);
    std::unique_ptr<Pipeline> pipeline =
        open_pipeline(ModelFolder::open(config.model), {.text_encoder = config.load_text_encoder,
                                                        .activations = activation_dtype(config.dtype, device.kind),
                                                        .vae_tiling = config.vae_tiling});
    notes_ = configuration_notes(config, pipeline->parts());
    generator_.emplace(create_device(device, config.device_memory_bytes, process_host_memory(config.host_memory_bytes)),
                       std::move(pipeline), options);
  }

  Generator& generator() { return *generator_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::vector<std::string> notes_;
  std::optional<Generator> generator_;
};

Engine::Engine(const EngineConfig& config) : impl_(std::make_unique<Impl>(config)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

GenerateResult Engine::generate(const GenerateRequest& request, const ProgressFunction& progress) {
  return impl_->generator().generate(request, progress);
}

const std::vector<std::string>& Engine::notes() const {
  return impl_->notes();
}

const char* version() noexcept {
  return LAMINA_VERSION;
}

}  // namespace lamina
