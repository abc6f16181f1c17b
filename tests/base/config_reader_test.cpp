#include "base/config_reader.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/expect_error.h"
#include "base/temporary_folder.h"

namespace lamina {
namespace {

using testing::expect_error;

ConfigReader reader() {
  return ConfigReader(parse_json(R"({"heads": 24, "eps": 1e-06, "whole": 3.0, "huge": 18446744073709551615,
      "flag": true, "name": "silu", "nothing": null, "axes": [32, 32, 32], "mixed": [1, "a"], "negative": -7,
      "rope": {"theta": 5000000, "inner": {"factor": "x"}}})",
                                 "config.json"),
                      "config.json");
}

TEST(ConfigReader, ReadsTypedFields) {
  const ConfigReader config = reader();
  EXPECT_EQ(config.integer("heads", 1, 64), 24);
  EXPECT_EQ(config.integer("negative", -10, 10), -7);
  EXPECT_EQ(config.number("eps"), 1e-6);
  EXPECT_EQ(config.number("heads"), 24.0);
  EXPECT_EQ(config.number("whole"), 3.0);
  EXPECT_TRUE(config.boolean_or("flag", false));
  EXPECT_EQ(config.text("name"), "silu");
  EXPECT_EQ(config.integers("axes", 1, 64), (std::vector<std::int64_t>{32, 32, 32}));
  EXPECT_EQ(config.object("rope").number("theta"), 5e6);
  EXPECT_EQ(config.source(), "config.json");
}

TEST(ConfigReader, FallsBackOnlyForMissingFields) {
  const ConfigReader config = reader();
  EXPECT_EQ(config.integer_or("missing", 5, 1, 4), 5);
  EXPECT_EQ(config.integer_or("heads", 5, 1, 64), 24);
  EXPECT_EQ(config.integer_or("nothing", 5, 1, 64), 5);
  EXPECT_EQ(config.number_or("missing", 0.5), 0.5);
  EXPECT_EQ(config.text_or("missing", "gelu"), "gelu");
  EXPECT_FALSE(config.boolean_or("missing", false));
  EXPECT_TRUE(config.has("heads"));
  EXPECT_FALSE(config.has("nothing"));
  EXPECT_FALSE(config.has("missing"));
  expect_error(ErrorCode::incompatible, {"'name'"}, [&] { config.integer_or("name", 5, 1, 64); });
  expect_error(ErrorCode::incompatible, {"'name'"}, [&] { config.number_or("name", 5); });
  expect_error(ErrorCode::incompatible, {"'heads'"}, [&] { config.text_or("heads", ""); });
}

TEST(ConfigReader, MissingAndNullFieldsAreNotFound) {
  const ConfigReader config = reader();
  const std::vector<std::string> missing = {"config.json: field 'missing' is missing"};
  expect_error(ErrorCode::not_found, missing, [&] { config.integer("missing", 0, 1); });
  expect_error(ErrorCode::not_found, missing, [&] { config.number("missing"); });
  expect_error(ErrorCode::not_found, missing, [&] { config.text("missing"); });
  expect_error(ErrorCode::not_found, missing, [&] { config.integers("missing", 0, 1); });
  expect_error(ErrorCode::not_found, missing, [&] { config.object("missing"); });
  expect_error(ErrorCode::not_found, {"'nothing' is missing"}, [&] { config.text("nothing"); });
}

TEST(ConfigReader, WrongTypesAndRangesTellFoundAndExpected) {
  const ConfigReader config = reader();
  const auto code = ErrorCode::incompatible;
  expect_error(code, {"config.json: field 'heads': found 24; an integer from 1 to 23 is expected"},
               [&] { config.integer("heads", 1, 23); });
  expect_error(code, {"found -7", "at least 0"}, [&] { config.integer("negative", 0, INT64_MAX); });
  expect_error(code, {"found 18446744073709551615"}, [&] { config.integer("huge", 0, INT64_MAX); });
  expect_error(code, {"'whole': found 3.0"}, [&] { config.integer("whole", 0, 10); });
  expect_error(code, {"'flag': found true", "an integer"}, [&] { config.integer("flag", 0, 1); });
  expect_error(code, {"'name': found \"silu\"; a number"}, [&] { config.number("name"); });
  expect_error(code, {"'heads': found 24; true or false"}, [&] { config.boolean_or("heads", true); });
  expect_error(code, {"'heads': found 24; a string"}, [&] { config.text("heads"); });
  expect_error(code, {"'heads': found 24; a list"}, [&] { config.integers("heads", 0, 100); });
  expect_error(code, {"'mixed': found [1,\"a\"]", "from 0 to 100"}, [&] { config.integers("mixed", 0, 100); });
  expect_error(code, {"'axes'", "from 33 to 100"}, [&] { config.integers("axes", 33, 100); });
  expect_error(code, {"'axes': found [32,32,32]; an object"}, [&] { config.object("axes"); });
}

TEST(ConfigReader, NestedFieldsAreNamedByTheirPath) {
  const ConfigReader inner = reader().object("rope").object("inner");
  expect_error(ErrorCode::incompatible, {"config.json: field 'rope.inner.factor': found \"x\""},
               [&] { inner.number("factor"); });
  expect_error(ErrorCode::not_found, {"field 'rope.inner.type' is missing"}, [&] { inner.text("type"); });
  expect_error(ErrorCode::incompatible, {"config.json: field 'rope.inner.factor': not known"},
               [&] { inner.reject("factor", "not known"); });
}

TEST(ConfigReader, ReadsFilesThatHoldAnObject) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(ConfigReader::read(folder.write("a.json", R"({"a": 1})")).integer("a", 0, 1), 1);
  const auto list = folder.write("list.json", "[1]");
  expect_error(ErrorCode::incompatible, {list.string(), "found [1]", "object"}, [&] { ConfigReader::read(list); });
  expect_error(ErrorCode::not_found, {"none.json"}, [&] { ConfigReader::read(folder.path() / "none.json"); });
}

}  // namespace
}  // namespace lamina
