#include "engine/micro_ranks.h"

#include <nlohmann/json.hpp>

#include <fstream>

#include "engine/engine_fixture.h"
#include "engine/own_checkpoint.h"
#include "pipelines/registry.h"
#include "test_data.h"
#include "weights/model_folder.h"

namespace lamina::test {

namespace fs = std::filesystem;

namespace {

/// Whether a tensor belongs to block `count` of the list or a later one.
bool is_beyond(const std::string& tensor, const std::string& list, int count) {
  return tensor.starts_with(list + ".") && std::stoi(tensor.substr(list.size() + 1)) >= count;
}

}  // namespace

fs::path micro_transformer(const fs::path& folder, int double_blocks, int single_blocks) {
  const fs::path model = folder / ("micro-" + std::to_string(double_blocks) + "-" + std::to_string(single_blocks));
  fs::create_directories(model / "transformer");
  fs::create_symlink(tiny_shapes() / "scheduler", model / "scheduler");
  nlohmann::json index = nlohmann::json::parse(std::ifstream(tiny_shapes() / "model_index.json"));
  for (const char* component : {"text_encoder", "tokenizer", "vae"}) index.erase(component);
  std::ofstream(model / "model_index.json") << index;
  const fs::path fixtures = test_data::fixtures() / "flux2";
  nlohmann::json config = nlohmann::json::parse(std::ifstream(fixtures / "micro_config.json"));
  config["num_layers"] = double_blocks;
  config["num_single_layers"] = single_blocks;
  std::ofstream(model / "transformer" / "config.json") << config;
  OwnedTensors tensors = tensors_of(Checkpoint::open_file(fixtures / "micro_model.safetensors"));
  std::erase_if(tensors, [&](const OwnedTensor& tensor) {
    return is_beyond(tensor.spec.name, "transformer_blocks", double_blocks) ||
           is_beyond(tensor.spec.name, "single_transformer_blocks", single_blocks);
  });
  write_file(model / "transformer" / kTransformerFile, tensors);
  return model;
}

EngineConfig micro_ranks(const fs::path& model, const ParallelSizes& sizes) {
  EngineConfig config;
  config.model = model;
  config.device = "cpu";
  config.load_text_encoder = false;
  config.poison_released = true;
  config.parallel.sizes = sizes;
  return config;
}

GenerateRequest micro_request(std::uint64_t seed, std::int64_t columns, std::int64_t steps) {
  GenerateRequest request;
  request.prompt_embeds_seed = seed;
  request.seed = seed;
  request.height = 16;
  request.width = 16 * columns;
  request.num_inference_steps = steps;
  request.guidance_scale = 1.0;
  request.output_type = OutputType::latent;
  return request;
}

std::vector<float> lone_latents(const fs::path& model, const GenerateRequest& request) {
  Generator generator(create_cpu_device({}), open_pipeline(ModelFolder::open(model), {.text_encoder = false}), {});
  return tensor_of(generator.generate(request), "latents").values;
}

}  // namespace lamina::test
