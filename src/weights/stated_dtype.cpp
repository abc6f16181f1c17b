#include "weights/stated_dtype.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace lamina {
namespace {

/// The checkpoint's word for PyTorch's.
std::string_view stored_name(std::string_view stated) {
  constexpr std::array<std::array<std::string_view, 2>, 3> kNames{
      {{"float32", "F32"}, {"bfloat16", "BF16"}, {"float16", "F16"}}};
  if (stated.starts_with("torch.")) stated.remove_prefix(6);
  for (const auto& [name, stored] : kNames)
    if (stated == name) return stored;
  return stated;
}

}  // namespace

std::optional<std::string> dtype_disagreement(const ConfigReader& config, const Checkpoint& checkpoint) {
  const std::string stated = config.text_or("dtype", config.text_or("torch_dtype", ""));
  const std::vector<TensorSpec>& tensors = checkpoint.tensors();
  if (stated.empty() || tensors.empty()) return std::nullopt;
  const bool is_there = std::ranges::any_of(
      tensors, [&](const TensorSpec& tensor) { return to_string(tensor.dtype) == stored_name(stated); });
  if (is_there) return std::nullopt;
  const TensorSpec& largest = *std::ranges::max_element(tensors, {}, &TensorSpec::size_bytes);
  return fmt::format("{}: dtype is '{}', but {} holds none of it: {} is {}; the file decides", config.source(), stated,
                     checkpoint.path().string(), largest.name, to_string(largest.dtype));
}

}  // namespace lamina
