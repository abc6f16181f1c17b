#include "base/config_reader.h"

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace lamina {
namespace {

/// The value as a signed integer, or nullopt where it is none or does not fit.
std::optional<std::int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return std::nullopt;
}

std::string expected_integer(std::int64_t minimum, std::int64_t maximum) {
  if (maximum == std::numeric_limits<std::int64_t>::max())
    return fmt::format("an integer of at least {} is expected", minimum);
  return fmt::format("an integer from {} to {} is expected", minimum, maximum);
}

}  // namespace

ConfigReader ConfigReader::read(const std::filesystem::path& file) {
  return ConfigReader(read_json_file(file), file.string());
}

ConfigReader::ConfigReader(Json object, std::string source) : object_(std::move(object)), source_(std::move(source)) {
  if (!object_.is_object())
    fail(ErrorCode::incompatible, "{}: found {}; a JSON object is expected", source_, excerpt(object_));
}

const Json* ConfigReader::find(std::string_view field) const {
  const auto member = object_.find(std::string(field));
  return member == object_.end() || member->is_null() ? nullptr : &*member;
}

const Json& ConfigReader::require(std::string_view field) const {
  const Json* value = find(field);
  if (value == nullptr) fail(ErrorCode::not_found, "{}: field '{}{}' is missing", source_, prefix_, field);
  return *value;
}

bool ConfigReader::has(std::string_view field) const {
  return find(field) != nullptr;
}

void ConfigReader::reject(std::string_view field, std::string_view reason) const {
  fail(ErrorCode::incompatible, "{}: field '{}{}': {}", source_, prefix_, field, reason);
}

void ConfigReader::mismatch(std::string_view field, const Json& found, std::string_view expected) const {
  reject(field, fmt::format("found {}; {}", excerpt(found), expected));
}

std::int64_t ConfigReader::integer(std::string_view field, std::int64_t minimum, std::int64_t maximum) const {
  const Json& value = require(field);
  const std::optional<std::int64_t> number = as_integer(value);
  if (!number || *number < minimum || *number > maximum) mismatch(field, value, expected_integer(minimum, maximum));
  return *number;
}

std::int64_t ConfigReader::integer_or(std::string_view field, std::int64_t fallback, std::int64_t minimum,
                                      std::int64_t maximum) const {
  return has(field) ? integer(field, minimum, maximum) : fallback;
}

double ConfigReader::number(std::string_view field) const {
  const Json& value = require(field);
  if (!value.is_number() || !std::isfinite(value.get<double>())) mismatch(field, value, "a number is expected");
  return value.get<double>();
}

double ConfigReader::number_or(std::string_view field, double fallback) const {
  return has(field) ? number(field) : fallback;
}

bool ConfigReader::boolean_or(std::string_view field, bool fallback) const {
  const Json* value = find(field);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) mismatch(field, *value, "true or false is expected");
  return value->get<bool>();
}

std::string ConfigReader::text(std::string_view field) const {
  const Json& value = require(field);
  if (!value.is_string()) mismatch(field, value, "a string is expected");
  return value.get<std::string>();
}

std::string ConfigReader::text_or(std::string_view field, std::string fallback) const {
  return has(field) ? text(field) : std::move(fallback);
}

std::vector<std::int64_t> ConfigReader::integers(std::string_view field, std::int64_t minimum,
                                                 std::int64_t maximum) const {
  const Json& value = require(field);
  if (!value.is_array()) mismatch(field, value, "a list of integers is expected");
  std::vector<std::int64_t> numbers;
  for (const Json& element : value) {
    const std::optional<std::int64_t> number = as_integer(element);
    if (!number || *number < minimum || *number > maximum)
      mismatch(field, value, "in each place " + expected_integer(minimum, maximum));
    numbers.push_back(*number);
  }
  return numbers;
}

ConfigReader ConfigReader::object(std::string_view field) const {
  const Json& value = require(field);
  if (!value.is_object()) mismatch(field, value, "an object is expected");
  ConfigReader nested(value, source_);
  nested.prefix_ = fmt::format("{}{}.", prefix_, field);
  return nested;
}

}  // namespace lamina
