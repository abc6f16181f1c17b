#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weights/model_folder.h"

namespace lamina {

/// Where a component's weights begin: an index of shards, or the only file.
struct WeightFile {
  std::filesystem::path path;
  bool is_index = false;
};

/// The weights STEM of a component folder, in the variant that is asked for ("fp16"; empty: none). A component without
/// that variant gives its plain weights; an index goes before a single file. With variant V, these names are known:
///
/// * STEM.V.safetensors;
/// * STEM.safetensors.index.V.json, STEM.safetensors.V.index.json or STEM.V.safetensors.index.json, whose shards have
///   any name.
///
/// Throws not_found naming folder and the files it looked for, with the variants, pickles or GGUF files that lie there
/// instead and what to do.
/// Source: names that diffusers and transformers write, or wrote.
WeightFile find_weights(const std::filesystem::path& folder, const std::string& stem, const std::string& variant);

/// Throws invalid_argument where `variant` is no part of a file's name, not_found naming those that are there where no
/// component of the model has weights of it. Empty: fine.
void check_variant(const ModelFolder& model, const std::string& variant);

}  // namespace lamina
