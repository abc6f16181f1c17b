#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "tensor/tensor_spec.h"
#include "weights/model_folder.h"

namespace lamina {

/// A model of random weights to write.
struct SynthesisRequest {
  std::string family;  ///< "flux2"
  /// A published size ("klein-4b"), or the path of a transformer's config.json; the other components' are taken from
  /// the folders beside its own.
  std::string size;
  std::vector<std::string> components;  ///< "transformer", "text_encoder", "vae", or "all"
  std::size_t shards = 1;               ///< files of each component
  std::uint64_t seed = 0;
};

/// A component as its family describes it.
struct SynthesisComponent {
  ModelComponent entry;  ///< of the index; the name is the folder's as well
  std::string stem;      ///< of the checkpoint's files
  Json config;
  std::vector<TensorSpec> tensors;  ///< bf16, in the order in which they are written
};

/// A model folder without its weights.
struct SynthesisPlan {
  Json index;  ///< settings of the pipeline; the components' entries are added
  std::string scheduler_class;
  Json scheduler_config;
  std::vector<SynthesisComponent> components;

  std::size_t weight_bytes() const;
};

/// What a request comes to. Throws invalid_argument naming family, size or component and the known ones,
/// not_implemented for a component that this build has no model of, not_found or incompatible naming file and field of
/// a configuration.
SynthesisPlan plan_synthesis(const SynthesisRequest& request);

/// Writes a model folder in the layout of diffusers with the components of the plan, weights by `fill_synthetic`. The
/// folder appears whole or not at all. Needs a few MiB of memory. Throws as `AtomicFolder` and `write_checkpoint` do,
/// unavailable with the numbers where the disk has not enough room, and what `between_pieces` throws: it is called
/// before every MiB or less of weights.
void write_synthetic_model(const SynthesisPlan& plan, const SynthesisRequest& request,
                           const std::filesystem::path& destination, const std::function<void()>& between_pieces = {});

}  // namespace lamina
