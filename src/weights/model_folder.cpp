#include "weights/model_folder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "weights/foreign_format.h"

namespace lamina {
namespace {

constexpr const char* kIndexName = "model_index.json";

/// A component's entry is a list [library, class]; [null, null] marks one that the model does without. Every other
/// value is a setting of the pipeline.
std::optional<ModelComponent> read_component(const ConfigReader& index, const std::string& name, const Json& value) {
  if (!value.is_array() || value.size() != 2 || (!value[0].is_string() && !value[1].is_string())) return std::nullopt;
  if (!value[0].is_string() || !value[1].is_string())
    index.reject(name, fmt::format("found {}; [library, class] is expected", excerpt(value)));
  if (!is_plain_file_name(name)) index.reject(name, "a component is named as a folder inside the model");
  return ModelComponent{name, value[0].get<std::string>(), value[1].get<std::string>()};
}

}  // namespace

ModelFolder ModelFolder::open(const std::filesystem::path& path) {
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (error) fail(ErrorCode::not_found, "no such model: {}: {}", path.string(), error.message());
  if (!exists)
    fail(ErrorCode::not_found, "no such model: {}: no such folder; a local folder in the diffusers layout is expected",
         path.string());
  if (!std::filesystem::is_directory(path, error)) {
    if (const auto format = foreign_format(path)) fail(ErrorCode::invalid_argument, "{} {}", path.string(), *format);
    fail(ErrorCode::invalid_argument, "{} is a file; a model folder with {} is expected", path.string(), kIndexName);
  }
  if (!is_there(path / kIndexName))
    fail(ErrorCode::not_found, "no such model: {} has no {}", path.string(), kIndexName);
  return ModelFolder(path, ConfigReader::read(path / kIndexName));
}

ModelFolder::ModelFolder(std::filesystem::path path, ConfigReader index)
    : path_(std::move(path)),
      index_(std::move(index)),
      class_name_(index_.text("_class_name")),
      is_distilled_(index_.boolean_or("is_distilled", false)) {
  for (const auto& [name, value] : index_.json().items())
    if (auto component = read_component(index_, name, value)) components_.push_back(std::move(*component));
}

const ModelComponent* ModelFolder::find(std::string_view component) const noexcept {
  const auto entry = std::ranges::find(components_, component, &ModelComponent::name);
  return entry == components_.end() ? nullptr : &*entry;
}

std::filesystem::path ModelFolder::component_path(std::string_view component) const {
  if (find(component) == nullptr)
    fail(ErrorCode::not_found, "{}: the model has no component '{}'", index_.source(), component);
  std::filesystem::path folder = path_ / component;
  std::error_code status;
  if (!std::filesystem::is_directory(folder, status))
    fail(ErrorCode::not_found, "component '{}': the folder {} does not exist", component, folder.string());
  return folder;
}

}  // namespace lamina
