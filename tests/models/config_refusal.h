#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "base/config_reader.h"
#include "base/error.h"
#include "base/json.h"

namespace lamina::test {

/// A change of a valid configuration (a JSON merge patch: null removes a field) that must be refused.
struct ConfigRefusal {
  const char* name;
  const char* patch;
  ErrorCode code;
  const char* field;    ///< named by the message
  const char* excerpt;  ///< of the message: the value found, or the reason
};

inline void PrintTo(const ConfigRefusal& refusal, std::ostream* out) {
  *out << refusal.patch;
}

inline std::string refusal_name(const testing::TestParamInfo<ConfigRefusal>& info) {
  return info.param.name;
}

/// The configuration in `file` with `patch` applied.
inline ConfigReader patched(const std::string& file, const std::string& patch) {
  Json config = read_json_file(file);
  config.merge_patch(parse_json(patch, "patch"));
  return ConfigReader(std::move(config), file);
}

template <typename Config>
void expect_refused(const std::string& file, const ConfigRefusal& refusal) {
  try {
    Config::read(patched(file, refusal.patch));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), refusal.code) << error.message();
    for (const std::string& part : {file, std::string(refusal.field), std::string(refusal.excerpt)})
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message() << "\nlacks: " << part;
  }
}

}  // namespace lamina::test
