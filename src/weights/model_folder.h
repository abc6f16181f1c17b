#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_reader.h"

namespace lamina {

/// A component that a model folder's index names: {"vae", "diffusers", "AutoencoderKLFlux2"}.
struct ModelComponent {
  std::string name;
  std::string library;
  std::string class_name;
};

/// A model in the layout of diffusers: a folder with `model_index.json` and one folder for each component. Which
/// pipelines and components are supported is for others to judge. Immutable.
class ModelFolder {
 public:
  /// Throws not_found ("no such model: ...") where there is no such path or no index in it, invalid_argument for a path
  /// that is no folder, incompatible naming the field for an index with mistyped fields. Looks into no component.
  static ModelFolder open(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return path_; }
  /// The whole index: `_class_name`, and settings such as `is_distilled` among the components.
  const ConfigReader& index() const noexcept { return index_; }
  /// The pipeline's class, "Flux2KleinPipeline".
  const std::string& class_name() const noexcept { return class_name_; }
  /// Whether the model is distilled (few steps, no guidance); false where the index does not say.
  bool is_distilled() const noexcept { return is_distilled_; }
  /// In the order of the index; optional components that are null are left out.
  const std::vector<ModelComponent>& components() const noexcept { return components_; }

  /// The entry, or nullptr.
  const ModelComponent* find(std::string_view component) const noexcept;
  /// The component's folder, which exists. Throws not_found naming component and folder where the index does not name
  /// it or its folder is missing.
  std::filesystem::path component_path(std::string_view component) const;

 private:
  ModelFolder(std::filesystem::path path, ConfigReader index);

  std::filesystem::path path_;
  ConfigReader index_;
  std::string class_name_;
  bool is_distilled_ = false;
  std::vector<ModelComponent> components_;
};

}  // namespace lamina
