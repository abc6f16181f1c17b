#include "comm/rank_failure.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace lamina {
namespace {

constexpr std::string_view kRank = "rank ";
constexpr std::string_view kFailed = " failed, and with it its group: ";

}  // namespace

Error rank_failure(std::size_t rank, const Error& failure) {
  return {failure.code(), fmt::format("{}{}{}{}", kRank, rank, kFailed, failure.message())};
}

std::optional<std::pair<std::size_t, Error>> failed_rank(const Error& reason) {
  std::string_view text = reason.message();
  if (!text.starts_with(kRank)) return std::nullopt;
  text.remove_prefix(kRank.size());
  std::size_t rank = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (problem != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.starts_with(kFailed)) return std::nullopt;
  text.remove_prefix(kFailed.size());
  return std::pair{rank, Error(reason.code(), std::string(text))};
}

}  // namespace lamina
