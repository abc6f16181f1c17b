#include "models/flux2/flux2_loras.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "models/flux2/flux2_original_names.h"

namespace lamina {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::size_t kNamedAtMost = 3;

/// A name under which a LoRA may know a tensor, and the rows of its delta that belong to it.
struct ModuleName {
  std::string name;
  std::optional<RowRuns> rows;
};

std::string with_underscores(std::string name) {
  std::ranges::replace(name, '.', '_');
  return "lora_unet_" + name;
}

std::vector<ModuleName> names_of(const TensorSpec& tensor) {
  if (!tensor.name.ends_with(kWeight) || tensor.shape.rank() != 2) return {};
  std::vector<ModuleName> names{{tensor.name.substr(0, tensor.name.size() - kWeight.size()), std::nullopt}};
  if (const auto original = flux2_original_name(tensor.name)) {
    const std::string module = original->tensor.substr(0, original->tensor.size() - kWeight.size());
    const std::optional<RowRuns> rows = original->rows(tensor.shape[0]);
    names.push_back({module, rows});
    names.push_back({with_underscores(module), rows});
  }
  return names;
}

void check_all_matched(const LoraFile& file, const std::set<std::string_view>& matched) {
  std::string unmatched;
  std::size_t count = 0;
  for (const auto& [name, delta] : file.modules) {
    if (matched.contains(name)) continue;
    if (count++ < kNamedAtMost) unmatched += (unmatched.empty() ? "" : ", ") + excerpt(name);
  }
  if (count > 0)
    fail(ErrorCode::incompatible,
         "{}: {} of {} modules are none of this transformer: {}{}; is it a LoRA of this model?", file.path.string(),
         count, file.modules.size(), unmatched, count > kNamedAtMost ? ", ..." : "");
}

}  // namespace

StoredFormOf with_loras(StoredFormOf stored_as, const std::vector<LoraFile>& loras,
                        const std::vector<TensorSpec>& tensors) {
  if (loras.empty()) return stored_as;
  const auto changes = std::make_shared<std::unordered_map<std::string, WeightChanges>>();
  for (const LoraFile& file : loras) {
    std::set<std::string_view> matched;
    for (const TensorSpec& tensor : tensors)
      for (const auto& [name, rows] : names_of(tensor)) {
        const auto module = file.modules.find(name);
        if (module == file.modules.end()) continue;
        matched.insert(module->first);
        try {
          (*changes)[tensor.name].push_back(merge_of(tensor, module->second, rows));
        } catch (const Error& error) {
          fail(error.code(), "{}: module {}: {}", file.path.string(), excerpt(name), error.message());
        }
      }
    check_all_matched(file, matched);
  }
  return [stored_as = std::move(stored_as), changes](const std::string& name) -> std::optional<StoredForm> {
    std::optional<StoredForm> form = stored_as ? stored_as(name) : std::nullopt;
    const auto changed = changes->find(name);
    if (changed == changes->end()) return form;
    if (!form) form = StoredForm{name, std::nullopt, false};
    form->changes = changed->second;
    return form;
  };
}

}  // namespace lamina
