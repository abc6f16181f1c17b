#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lamina {

/// The dtype in which a pipeline draws its initial noise: the picture of a seed depends on it.
enum class NoiseDType {
  automatic,  ///< that of the checkpoint's transformer, as the reference pipelines do when loaded in it
  float32,
  bfloat16
};

/// The kind of PyTorch generator whose noise a seed gives, whatever device computes.
enum class GeneratorDevice { cpu, cuda };

/// Whether a request ends with a picture, or with the latents of which the VAE would make it.
enum class OutputType { image, latent };

/// A picture to edit: a file, or the bytes of one. Names of files convert.
struct InputImage {
  InputImage(std::string name) : file(std::move(name)) {}
  InputImage(const char* name) : file(name) {}
  InputImage(std::vector<std::uint8_t> content) : bytes(std::move(content)) {}

  std::string file;                 ///< read when the request is prepared; empty: `bytes`
  std::vector<std::uint8_t> bytes;  ///< as a file holds them: PNG, JPEG or WebP
};

/// A tensor given in memory, row-major.
struct InputTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// Pictures to make. Unset fields take the checkpoint's defaults.
struct GenerateRequest {
  std::string prompt;  ///< UTF-8; empty is legal
  /// What guidance leads away from; empty, as in diffusers, unless given. Without guidance it has no effect, and the
  /// result's notes say so.
  std::string negative_prompt;
  /// In place of a prompt: a safetensors file with `prompt_embeds` [512, text channels], with or without a
  /// leading 1, and for guidance `negative_prompt_embeds`; or random embeddings of this seed.
  std::string prompt_embeds_file;
  std::optional<std::uint64_t> prompt_embeds_seed;
  /// In place of the file: [512, text channels] each; the second for guidance.
  std::optional<InputTensor> prompt_embeds;
  std::optional<InputTensor> negative_prompt_embeds;
  std::vector<InputImage> images;      ///< to edit, in order
  std::optional<std::int64_t> height;  ///< pixels
  std::optional<std::int64_t> width;
  std::optional<std::int64_t> num_inference_steps;
  std::vector<double> sigmas;  ///< noise levels, one for each step, before the scheduler shifts them; empty: even ones
  std::optional<double> guidance_scale;  ///< above 1: classifier-free guidance, where the checkpoint knows it
  std::uint64_t seed = 0;
  /// Pictures of this request. Picture i is that of a lone request with seed + i, as diffusers makes it with a list of
  /// generators (one generator for several pictures draws other noise for all but the first).
  std::size_t num_images_per_prompt = 1;
  NoiseDType noise_dtype = NoiseDType::automatic;
  GeneratorDevice generator_device = GeneratorDevice::cpu;
  std::string noise_file;            ///< safetensors file whose tensor `noise` replaces the seed's
  std::optional<InputTensor> noise;  ///< the same in memory: [1, channels, rows, columns]
  OutputType output_type = OutputType::image;
  bool keep_tensors = false;  ///< return prompt embeddings, latents of every step and the image
};

struct Picture {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<std::uint8_t> rgb;  ///< [height, width, 3]
};

struct ResultTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;  ///< row-major
};

struct GenerateResult {
  Picture picture;  ///< empty where latents are the output
  /// What determines the picture, as it stands in a written PNG: prompt, seed, size, steps, guidance.
  std::vector<std::pair<std::string, std::string>> settings;
  /// With keep_tensors; and `latents` [1, tokens, channels], the last ones, where that is the output.
  std::vector<ResultTensor> tensors;
  std::vector<std::string> notes;  ///< what of the request had no effect, or was cut, and why; also logged at the start
  /// With EngineConfig::record_trace: every visit of every block, in the Trace Event Format of Chrome and Perfetto.
  std::string trace_json;
  std::string report_json;  ///< effective configuration, bytes, visits, stall, memory, times
};

/// Progress of a stage that goes through its blocks; stages without passes tell none.
struct Progress {
  std::string stage;       ///< "encode prompt", "denoise"
  std::size_t pass = 0;    ///< passes done
  std::size_t passes = 0;  ///< of this stage, at least 1
  double seconds_per_pass = 0;
  double stall_share = 0;  ///< of the time so far, 0..1
};

/// May throw: the request ends with that exception, and the engine goes on.
using ProgressFunction = std::function<void(const Progress&)>;

/// The picture as the bytes of a PNG file, its settings as text chunks. Equal pictures of equal settings are equal
/// bytes.
std::vector<std::uint8_t> encode_png(const GenerateResult& result);

/// Writes the picture with its settings as text chunks. Equal pictures of equal settings are equal files. Nothing is
/// left behind on failure. Throws unavailable naming the path.
void write_png(const GenerateResult& result, const std::string& path);

/// Writes the result's tensors as one safetensors file, under the same rules.
void write_tensors(const GenerateResult& result, const std::string& path);

}  // namespace lamina
