#include "weights/coverage.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"

namespace lamina {
namespace {

bool matches(std::string_view name, const std::string& pattern) {
  return pattern.ends_with('.') ? name.starts_with(pattern) : name == pattern;
}

}  // namespace

std::vector<std::string> check_coverage(const Checkpoint& checkpoint, const TensorDemand& demand) {
  std::unordered_set<std::string_view> consumed;
  for (const TensorSpec& spec : demand.consumed) {
    if (checkpoint.find(spec.name) == nullptr)
      fail(ErrorCode::not_found, "component '{}': {} lacks tensor '{}' ({} {})", demand.component,
           checkpoint.path().string(), spec.name, to_string(spec.dtype), to_string(spec.shape));
    checkpoint.view(spec);
    consumed.insert(spec.name);
  }
  std::vector<std::string> unused;
  for (const TensorSpec& spec : checkpoint.tensors()) {
    const auto is_this = [&](const std::string& pattern) { return matches(spec.name, pattern); };
    if (!consumed.contains(spec.name) && std::ranges::none_of(demand.known_unused, is_this))
      unused.push_back(spec.name);
  }
  return unused;
}

}  // namespace lamina
