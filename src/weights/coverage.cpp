#include "weights/coverage.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json.h"

namespace lamina {
namespace {

/// How often each row of a stored tensor is consumed.
using RowUse = std::vector<int>;

void count_rows(const WeightBinding& binding, RowUse& use) {
  const std::int64_t rows = binding.rows ? binding.tensor.shape[0] : std::ssize(use);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t stored =
        binding.rows ? binding.rows->first + row / binding.rows->run * binding.rows->stride + row % binding.rows->run
                     : row;
    ++use[static_cast<std::size_t>(stored)];
  }
}

std::size_t row_count(const Shape& shape) {
  return shape.rank() == 0 ? 1 : static_cast<std::size_t>(shape[0]);
}

/// Every row of every consumed tensor is consumed once. Only tensors that are taken apart can fail.
void check_rows(const std::vector<WeightBinding>& bindings) {
  std::map<std::string_view, RowUse> use;
  for (const WeightBinding& binding : bindings) {
    const StoredTensor& stored = binding.stored;
    count_rows(binding, use.try_emplace(stored.spec.name, row_count(stored.spec.shape)).first->second);
  }
  for (const WeightBinding& binding : bindings) {
    const RowUse& rows = use.at(binding.stored.spec.name);
    const auto wrong = std::ranges::find_if(rows, [](int times) { return times != 1; });
    if (wrong != rows.end())
      fail(ErrorCode::incompatible, "{}: row {} of tensor {} is consumed {} times; once is expected",
           binding.file->path().string(), wrong - rows.begin(), excerpt(binding.stored.spec.name), *wrong);
  }
}

}  // namespace

bool is_known_unused(std::string_view name, const std::vector<std::string>& known_unused) {
  return std::ranges::any_of(known_unused, [&](const std::string& pattern) {
    return pattern.ends_with('.') ? name.starts_with(pattern) : name == pattern;
  });
}

std::vector<std::string> check_coverage(const Checkpoint& checkpoint, const WeightDemand& demand) {
  std::vector<WeightBinding> bindings;
  for (const TensorSpec& tensor : demand.tensors) {
    try {
      bindings.push_back(bind_weight(checkpoint, tensor, demand.stored_as));
    } catch (const Error& error) {
      fail(error.code(), "component '{}': {}", demand.component, error.message());
    }
  }
  check_rows(bindings);
  std::vector<std::string_view> consumed;
  for (const WeightBinding& binding : bindings) consumed.push_back(binding.stored.spec.name);
  std::ranges::sort(consumed);
  std::vector<std::string> unused;
  for (const TensorSpec& spec : checkpoint.tensors())
    if (!std::ranges::binary_search(consumed, std::string_view(spec.name)) &&
        !is_known_unused(spec.name, demand.known_unused))
      unused.push_back(spec.name);
  return unused;
}

}  // namespace lamina
