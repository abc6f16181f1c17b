#include "engine/engine_fixture.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "base/file.h"
#include "pipelines/pictures/image.h"
#include "pipelines/registry.h"
#include "test_data.h"
#include "weights/model_folder.h"
#include "weights/safetensors_writer.h"

namespace lamina::test {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder() {
  static std::atomic<int> next = 0;
  path_ = fs::temp_directory_path() / ("lamina-test-" + std::to_string(::getpid()) + "-" + std::to_string(next++));
  fs::create_directories(path_);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;  // a folder left behind in /tmp fails no test
  fs::remove_all(path_, ignored);
}

Fixtures::Fixtures(const std::string& file)
    : checkpoint_(Checkpoint::open_file(test_data::fixtures() / "flux2" / file)) {}

std::vector<float> Fixtures::floats(const std::string& name) const {
  const ConstTensorView tensor = view(name);
  if (tensor.dtype() != DType::f32) throw std::runtime_error(name + " is not float32");
  std::vector<float> values(static_cast<std::size_t>(tensor.shape().elements()));
  std::memcpy(values.data(), tensor.data(), tensor.span_bytes());
  return values;
}

std::string write_noise(const Fixtures& fixtures, const std::string& name, const fs::path& folder) {
  AtomicFile file(folder / (name + ".safetensors"));
  const std::vector<NamedTensor> tensors{{"noise", fixtures.view(name)}};
  write_safetensors(file, tensors);
  file.commit();
  return file.destination().string();
}

fs::path tiny_shapes() {
  return test_data::models() / "tiny-shapes";
}

fs::path micro_model(const fs::path& folder) {
  const fs::path model = folder / "micro";
  fs::create_directories(model / "transformer");
  for (const char* entry : {"model_index.json", "scheduler", "text_encoder", "tokenizer", "vae"})
    fs::create_symlink(tiny_shapes() / entry, model / entry);
  const fs::path fixtures = test_data::fixtures() / "flux2";
  fs::create_symlink(fixtures / "micro_config.json", model / "transformer" / "config.json");
  fs::create_symlink(fixtures / "micro_model.safetensors",
                     model / "transformer" / "diffusion_pytorch_model.safetensors");
  return model;
}

std::unique_ptr<Generator> make_generator(const fs::path& model, const OffloadOptions& options,
                                          CpuDeviceOptions device) {
  return std::make_unique<Generator>(create_cpu_device(std::move(device)), open_pipeline(ModelFolder::open(model)),
                                     options);
}

void PrintTo(const RecordedCase& recorded, std::ostream* out) {
  *out << recorded.name;
}

namespace {

/// The recorded input picture of the edit case as a PNG.
std::string write_reference(const Fixtures& fixtures, const fs::path& folder) {
  const ConstTensorView planes = fixtures.view("edit.input");
  RgbImage image{planes.size(1), planes.size(2), {}};
  const std::int64_t pixels = image.height * image.width;
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
    for (std::int64_t channel = 0; channel < 3; ++channel)
      image.pixels.push_back(planes.as<std::uint8_t>()[channel * pixels + pixel]);
  const fs::path path = folder / "reference.png";
  write_png(AtomicFile(path), image, {});
  return path.string();
}

}  // namespace

GenerateRequest recorded_request(const RecordedCase& recorded, const Fixtures& fixtures, const fs::path& folder) {
  const std::string name = recorded.name;
  std::ifstream file(test_data::fixtures() / "flux2" / recorded.settings);
  const nlohmann::json settings = nlohmann::json::parse(file).at(name);
  GenerateRequest request;
  request.prompt = settings.at("prompt");
  request.height = settings.at("height").get<std::int64_t>();
  request.width = settings.at("width").get<std::int64_t>();
  request.num_inference_steps = settings.at("num_inference_steps").get<std::int64_t>();
  request.guidance_scale = settings.at("guidance_scale").get<double>();
  request.keep_tensors = true;
  request.noise_file = write_noise(fixtures, name + ".noise", folder);
  if (name == "edit") request.images = {write_reference(fixtures, folder)};
  return request;
}

fs::path recorded_model(const RecordedCase& recorded, const fs::path& folder) {
  return recorded.micro_transformer ? micro_model(folder) : tiny_shapes();
}

std::vector<float> step_of(const std::vector<float>& latents, std::size_t index, std::size_t steps) {
  const std::size_t size = latents.size() / steps;
  return {latents.begin() + static_cast<std::ptrdiff_t>(index * size),
          latents.begin() + static_cast<std::ptrdiff_t>((index + 1) * size)};
}

GenerateRequest small_request() {
  GenerateRequest request;
  request.prompt = "a blue square on a white background";
  request.height = 32;
  request.width = 48;
  request.num_inference_steps = 2;
  request.guidance_scale = 3.0;
  request.seed = 5;
  request.keep_tensors = true;
  return request;
}

const ResultTensor& tensor_of(const GenerateResult& result, const std::string& name) {
  for (const ResultTensor& tensor : result.tensors)
    if (tensor.name == name) return tensor;
  throw std::runtime_error("the result has no tensor " + name);
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double{a[i]} - double{b[i]});
    // NaN compares false with everything, and must not pass.
    if (!(difference <= largest))
      largest = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
  }
  return largest;
}

double mean_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size() || a.empty()) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(double{a[i]} - double{b[i]});
  return sum / static_cast<double>(a.size());
}

double relative_difference(const std::vector<float>& actual, const std::vector<float>& expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    difference += std::pow(double{actual[i]} - double{expected[i]}, 2);
    norm += std::pow(double{expected[i]}, 2);
  }
  const double relative = std::sqrt(difference / norm);
  return std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
}

const StageReport& stage_of(const Generator& generator, const std::string& stage) {
  for (const StageReport& report : generator.stage_reports())
    if (report.need.stage == stage) return report;
  throw std::runtime_error("no stage " + stage);
}

}  // namespace lamina::test
