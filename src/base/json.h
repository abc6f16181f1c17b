#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace lamina {

using Json = nlohmann::ordered_json;

/// Parses strictly: duplicate keys of one object, trailing text, comments, invalid UTF-8 and nesting deeper than 100
/// are corrupt. `source` names the file in the error. Integers up to 2^64-1 are kept exactly. Takes linear time;
/// looking up a key of the result is linear in the size of its object, so walk large objects instead of searching them.
Json parse_json(std::string_view text, std::string_view source);

/// Parses an object as strictly and hands its members over one by one, so that only one of them is in memory at a time.
/// A member of more than `max_values` values (those of all depths count) is corrupt, as is any other text than an
/// object.
void visit_json_members(std::string_view text, std::string_view source, std::size_t max_values,
                        const std::function<void(const std::string& name, const Json& value)>& visit);

/// Reads and parses a file; throws not_found, unavailable or corrupt naming it.
Json read_json_file(const std::filesystem::path& path);

/// A value as one short line for an error message: compact JSON, strings quoted, cut after 80 bytes.
std::string excerpt(const Json& value);

}  // namespace lamina
