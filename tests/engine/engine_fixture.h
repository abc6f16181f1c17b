#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "engine/generator.h"
#include "lamina/generate.h"
#include "tensor/shape.h"
#include "weights/checkpoint.h"

namespace lamina::test {

/// A folder of its own for each test that makes one, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Recorded tensors of the reference implementation.
class Fixtures {
 public:
  /// `file` in the FLUX.2 fixtures folder.
  explicit Fixtures(const std::string& file);

  std::vector<float> floats(const std::string& name) const;
  Shape shape(const std::string& name) const { return checkpoint_.find(name)->shape; }
  /// The tensor's bytes as they stand.
  ConstTensorView view(const std::string& name) const { return checkpoint_.view(*checkpoint_.find(name)); }

 private:
  Checkpoint checkpoint_;
};

/// A safetensors file in `folder` whose tensor `noise` is the fixture's.
std::string write_noise(const Fixtures& fixtures, const std::string& name, const std::filesystem::path& folder);

std::filesystem::path tiny_shapes();
/// tiny-shapes with the transformer of the micro fixture, as links in `folder`.
std::filesystem::path micro_model(const std::filesystem::path& folder);

std::unique_ptr<Generator> make_generator(const std::filesystem::path& model, const OffloadOptions& options,
                                          CpuDeviceOptions device = {});

/// A run that the reference implementation recorded.
struct RecordedCase {
  const char* name;
  const char* tensors;   ///< file of the recorded tensors
  const char* settings;  ///< file of prompt, size, steps, guidance
  bool micro_transformer;
};

void PrintTo(const RecordedCase& recorded, std::ostream* out);

/// The case's request with its recorded noise and reference picture, written to `folder`.
GenerateRequest recorded_request(const RecordedCase& recorded, const Fixtures& fixtures,
                                 const std::filesystem::path& folder);
std::filesystem::path recorded_model(const RecordedCase& recorded, const std::filesystem::path& folder);
/// The latents behind step `index` of `steps`.
std::vector<float> step_of(const std::vector<float>& latents, std::size_t index, std::size_t steps);

/// Two steps of a small picture of the demo model: enough to go through every unit of every part with both guidance
/// branches, twice.
GenerateRequest small_request();

const ResultTensor& tensor_of(const GenerateResult& result, const std::string& name);

/// Largest absolute difference; infinity where the counts differ.
double largest_difference(const std::vector<float>& a, const std::vector<float>& b);
double mean_difference(const std::vector<float>& a, const std::vector<float>& b);
/// Norm of the difference over the norm of `expected`; infinity where the counts differ or a value is NaN.
double relative_difference(const std::vector<float>& actual, const std::vector<float>& expected);

const StageReport& stage_of(const Generator& generator, const std::string& stage);

}  // namespace lamina::test
