#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lamina/generate.h"
#include "pipelines/chat_prompt.h"
#include "pipelines/flow_match.h"
#include "pipelines/flux2/flux2_model.h"
#include "pipelines/latent_geometry.h"
#include "pipelines/pictures/reference_image.h"

namespace lamina {

/// A reference picture and what the VAE makes of it.
struct Flux2Reference {
  ReferenceImage image;
  TokenGrid grid;
  std::vector<float> tokens;  ///< [grid.tokens, packed channels], filled by its stage
};

/// A request with everything decided, and what its stages hand on to each other, all on the host. Floats are row-major.
struct Flux2Job {
  GenerateRequest request;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t steps = 0;
  double guidance_scale = 1;
  TokenGrid grid;
  FlowMatchSchedule schedule;
  /// 2 with classifier-free guidance: the request's prompt, and the negative one after it.
  std::size_t branches = 1;
  std::vector<PromptTokens> prompts;  ///< per branch; none where the request gives embeddings
  std::vector<Flux2Reference> references;
  DType noise_dtype = DType::f32;
  std::vector<float> noise;       ///< [grid.tokens, packed channels]
  std::vector<float> step_noise;  ///< [steps, grid.tokens, packed channels], where the schedule adds noise
  std::vector<std::string> notes;

  /// Per branch [tokens, text channels], from the request or the encode stage.
  std::vector<std::vector<float>> prompt_embeds;
  std::vector<float> latents;       ///< [grid.tokens, packed channels], from the denoise stage
  std::vector<float> step_latents;  ///< [steps, grid.tokens, packed channels], where the request keeps tensors
  std::vector<float> image;         ///< [height, width, 3], about -1..1, from the decode stage

  bool makes_image() const noexcept { return request.output_type == OutputType::image; }
  bool gives_noise() const noexcept { return request.noise.has_value() || !request.noise_file.empty(); }
  bool uses_guidance_branches() const noexcept { return branches == 2; }
  std::int64_t reference_tokens() const;

  /// Decides what the request leaves open, checks it and reads its files. Throws invalid_argument, not_found or corrupt
  /// naming the field or file, the value and what is allowed.
  static Flux2Job plan(const Flux2Model& model, const GenerateRequest& request);
};

}  // namespace lamina
