#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace lamina {

/// Typed access to the fields of a JSON configuration file. Every error names the file, the field, what was found and
/// what was expected: not_found for a missing field, incompatible for a wrong type or a value out of range.
/// JSON null counts as missing.
class ConfigReader {
 public:
  static ConfigReader read(const std::filesystem::path& file);
  ConfigReader(Json object, std::string source);

  const std::string& source() const noexcept { return source_; }
  const Json& json() const noexcept { return object_; }
  bool has(std::string_view field) const;

  /// Integers within [minimum, maximum].
  std::int64_t integer(std::string_view field, std::int64_t minimum, std::int64_t maximum) const;
  std::int64_t integer_or(std::string_view field, std::int64_t fallback, std::int64_t minimum,
                          std::int64_t maximum) const;
  /// Finite numbers; integers count.
  double number(std::string_view field) const;
  double number_or(std::string_view field, double fallback) const;
  bool boolean_or(std::string_view field, bool fallback) const;
  std::string text(std::string_view field) const;
  std::string text_or(std::string_view field, std::string fallback) const;
  std::vector<std::int64_t> integers(std::string_view field, std::int64_t minimum, std::int64_t maximum) const;
  /// A nested object; its errors name the field as "outer.inner".
  ConfigReader object(std::string_view field) const;

  /// Throws incompatible: "<source>: field '<field>': <what is wrong>".
  [[noreturn]] void reject(std::string_view field, std::string_view reason) const;

 private:
  /// The field, or nullptr where it is missing or null.
  const Json* find(std::string_view field) const;
  const Json& require(std::string_view field) const;
  [[noreturn]] void mismatch(std::string_view field, const Json& found, std::string_view expected) const;

  Json object_;
  std::string source_;
  std::string prefix_;  ///< "outer." in a nested object
};

}  // namespace lamina
