#include "weights/weight_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "weights/foreign_format.h"

namespace lamina {
namespace {

constexpr const char* kStems[] = {"diffusion_pytorch_model", "model"};

/// The names in the folder, sorted; none where it does not exist.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error); !error && entry != end(entry);
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    fail(ErrorCode::unavailable, "cannot list {}: {}", folder.string(), error.message());
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// Cuts "-00001-of-00002" off the end; whether it was there.
bool cut_shard_number(std::string& text) {
  constexpr std::string_view kPattern = "-00000-of-00000";
  if (text.size() <= kPattern.size()) return false;
  const std::string_view tail = std::string_view(text).substr(text.size() - kPattern.size());
  for (std::size_t i = 0; i < tail.size(); ++i)
    if (kPattern[i] == '0' ? (tail[i] < '0' || tail[i] > '9') : tail[i] != kPattern[i]) return false;
  text.resize(text.size() - kPattern.size());
  return true;
}

/// What a file's name says of the weights in it.
struct NamedWeights {
  std::string variant;  ///< empty: none
  enum class Kind { index, single, shard } kind = Kind::single;
};

/// STEM, variant, "safetensors" and "index" stand in any order behind STEM; nullopt for a file of another kind or stem.
std::optional<NamedWeights> parse_name(const std::string& name, std::string_view stem) {
  NamedWeights weights;
  std::vector<std::string> parts = split(name, '.');
  bool is_safetensors = false;
  bool is_index = false;
  if (parts.back() != "safetensors" && parts.back() != "json") return std::nullopt;
  if (parts.back() == "json") parts.pop_back();
  std::vector<std::string> rest;
  for (std::string& part : parts) {
    if (part == "safetensors") {
      is_safetensors = true;
    } else if (part == "index") {
      is_index = true;
    } else {
      if (cut_shard_number(part)) weights.kind = NamedWeights::Kind::shard;
      rest.push_back(part);
    }
  }
  if (!is_safetensors || is_index != name.ends_with(".json") || rest.empty() || rest.size() > 2 || rest[0] != stem)
    return std::nullopt;
  if (is_index) weights.kind = NamedWeights::Kind::index;
  if (rest.size() == 2) weights.variant = rest[1];
  return weights;
}

/// Variant -> a file of it.
std::map<std::string, std::string> variants_of(const std::vector<std::string>& names, std::string_view stem) {
  std::map<std::string, std::string> variants;
  for (const std::string& name : names)
    if (const auto weights = parse_name(name, stem); weights && !weights->variant.empty())
      variants.try_emplace(weights->variant, name);
  return variants;
}

/// The end of the sentence that nothing was found: what lies there instead.
std::string found_instead(const std::vector<std::string>& names, std::string_view stem) {
  const std::map<std::string, std::string> variants = variants_of(names, stem);
  if (!variants.empty()) {
    std::string text;
    for (const auto& [variant, file] : variants)
      text += fmt::format("{}'{}' ({})", text.empty() ? "" : ", ", variant, file);
    return fmt::format("; there is variant {}: choose it with --variant {}", text, variants.begin()->first);
  }
  for (const std::string& name : names)
    if (const auto format = foreign_format(std::filesystem::path(name))) return fmt::format("; {} {}", name, *format);
  return {};
}

std::optional<WeightFile> find_in(const std::filesystem::path& folder, const std::vector<std::string>& names,
                                  std::string_view stem, const std::string& variant) {
  for (const auto kind : {NamedWeights::Kind::index, NamedWeights::Kind::single})
    for (const std::string& name : names)
      if (const auto weights = parse_name(name, stem); weights && weights->variant == variant && weights->kind == kind)
        return WeightFile{folder / name, kind == NamedWeights::Kind::index};
  return std::nullopt;
}

}  // namespace

WeightFile find_weights(const std::filesystem::path& folder, const std::string& stem, const std::string& variant) {
  const std::vector<std::string> names = names_in(folder);
  if (const auto found = find_in(folder, names, stem, variant)) return *found;
  if (const auto plain = find_in(folder, names, stem, "")) return *plain;
  fail(ErrorCode::not_found, "{}: there is neither {}.safetensors.index.json nor {}.safetensors{}", folder.string(),
       stem, stem, found_instead(names, stem));
}

void check_variant(const ModelFolder& model, const std::string& variant) {
  if (variant.empty()) return;
  if (!is_plain_file_name(variant) || variant.find('.') != std::string::npos)
    fail(ErrorCode::invalid_argument, "--variant {}: a part of file names is expected, such as fp16 or bf16", variant);
  std::set<std::string> known;
  for (const ModelComponent& component : model.components()) {
    const std::vector<std::string> names = names_in(model.path() / component.name);
    for (const char* stem : kStems)
      for (const auto& [name, file] : variants_of(names, stem)) known.insert(name);
  }
  if (known.contains(variant)) return;
  std::string list;
  for (const std::string& name : known) list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  fail(ErrorCode::not_found, "--variant {}: no component of {} has weights of it; {}", variant, model.path().string(),
       list.empty() ? "there are plain weights alone" : "there are " + list);
}

}  // namespace lamina
