#include "engine/config/select_device.h"

#include <charconv>
#include <string>
#include <utility>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "device/cuda/cuda_device.h"

namespace lamina {
namespace {

/// The N of "cuda:N", written as a whole number without sign or leading zeros.
std::optional<int> parse_index(std::string_view digits) {
  int index = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), index);
  if (error != std::errc() || end != digits.end() || std::to_string(index) != digits || index < 0) return std::nullopt;
  return index;
}

}  // namespace

DeviceChoice choose_device(std::string_view name) {
  constexpr std::string_view kNumbered = "cuda:";
  if (name == "auto") return {cuda_unavailable_reason().empty() ? DeviceKind::cuda : DeviceKind::cpu};
  if (name == "cpu") return {DeviceKind::cpu};
  if (name == "cuda") return {DeviceKind::cuda};
  if (name.starts_with(kNumbered))
    if (const auto index = parse_index(name.substr(kNumbered.size()))) return {DeviceKind::cuda, *index};
  fail(ErrorCode::invalid_argument, "device '{}' is unknown; use auto, cpu, cuda or cuda:N", name);
}

std::unique_ptr<Device> create_device(DeviceChoice choice, std::optional<std::size_t> memory_limit_bytes,
                                      std::shared_ptr<HostMemoryBudget> host_memory) {
  switch (choice.kind) {
    case DeviceKind::cpu:
      return create_cpu_device({.memory_limit_bytes = memory_limit_bytes, .host_memory = std::move(host_memory)});
    case DeviceKind::cuda:
      return create_cuda_device(
          {.index = choice.index, .memory_limit_bytes = memory_limit_bytes, .host_memory = std::move(host_memory)});
  }
  fail(ErrorCode::internal, "device kind {}", static_cast<int>(choice.kind));
}

}  // namespace lamina
