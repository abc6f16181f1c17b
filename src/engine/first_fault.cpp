#include "engine/first_fault.h"

#include <charconv>
#include <string_view>

#include "base/error.h"

namespace lamina {
namespace {

constexpr std::string_view kRank = "rank ";
constexpr std::string_view kFailed = " failed, and with it its group: ";

}  // namespace

std::string to_string(const Fault& fault) {
  return fmt::format("{}{}{}{}", kRank, fault.rank, kFailed, fault.failure.message);
}

Error as_reason(const Fault& fault) {
  return {fault.failure.code, to_string(fault)};
}

Fault as_fault(const Error& error, std::size_t rank) {
  const Fault own{rank, {error.code(), error.message()}};
  std::string_view text = error.message();
  if (!text.starts_with(kRank)) return own;
  text.remove_prefix(kRank.size());
  std::size_t stated = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), stated);
  if (problem != std::errc()) return own;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.starts_with(kFailed)) return own;
  text.remove_prefix(kFailed.size());
  return {stated, {error.code(), std::string(text)}};
}

}  // namespace lamina
