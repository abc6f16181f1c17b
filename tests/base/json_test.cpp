#include "base/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/expect_error.h"
#include "base/temporary_folder.h"

namespace lamina {
namespace {

std::string nested_lists(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(ParseJson, KeepsValuesAndTheOrderOfKeys) {
  const Json json = parse_json(R"( {"b": [1, -2, 2.5, true, null], "a": {"c": "\u00e9\n", "b": {}}, "": []} )", "x");
  EXPECT_EQ(json.dump(), "{\"b\":[1,-2,2.5,true,null],\"a\":{\"c\":\"\u00e9\\n\",\"b\":{}},\"\":[]}");
}

TEST(ParseJson, TakesScalarsAtTheTop) {
  EXPECT_EQ(parse_json("3", "x"), Json(3));
  EXPECT_EQ(parse_json("\"3\"", "x"), Json("3"));
}

TEST(ParseJson, KeepsLargeIntegersExactly) {
  const Json json = parse_json("[18446744073709551615, 9007199254740993, -9223372036854775808]", "x");
  ASSERT_TRUE(json[0].is_number_unsigned());
  EXPECT_EQ(json[0].get<std::uint64_t>(), 18446744073709551615u);
  EXPECT_EQ(json[1].get<std::uint64_t>(), 9007199254740993u);
  EXPECT_EQ(json[2].get<std::int64_t>(), INT64_MIN);
  EXPECT_TRUE(parse_json("18446744073709551616", "x").is_number_float());
}

TEST(ParseJson, EqualKeysOfDifferentObjectsAreFine) {
  EXPECT_EQ(parse_json(R"({"a": {"a": 1}, "b": [{"a": 2}, {"a": 3}]})", "x")["b"][1]["a"], 3);
}

TEST(ParseJson, TakesNestingUpToTheLimit) {
  EXPECT_NO_THROW(parse_json(nested_lists(100), "x"));
}

struct Fault {
  const char* name;
  std::string text;
  std::vector<std::string> parts;
};

class JsonFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(JsonFaultTest, IsCorrupt) {
  std::vector<std::string> parts = GetParam().parts;
  parts.push_back("config.json: ");
  testing::expect_error(ErrorCode::corrupt, parts, [] { parse_json(GetParam().text, "config.json"); });
}

INSTANTIATE_TEST_SUITE_P(
    All, JsonFaultTest,
    ::testing::Values(
        Fault{"empty", "", {"not valid JSON", "line 1, column 1"}},
        Fault{"cut_short", R"({"a": [1, 2)", {"not valid JSON", "line 1, column 12"}},
        Fault{"second_line", "{\"a\":\n 1,}", {"line 2, column 4"}},
        Fault{"trailing_text", "{} x", {"line 1, column 4"}}, Fault{"second_document", "{}{}", {"line 1, column 3"}},
        Fault{"zero_byte_and_more", std::string("{}\0{}", 5), {"zero byte at position 2"}},
        Fault{"comment", "{} // done", {"line 1, column 4"}}, Fault{"nan", R"({"a": NaN})", {"line 1, column 7"}},
        Fault{"number_out_of_range", R"({"a": 1e400})", {"number overflow", "1e400"}},
        Fault{"leading_zero", R"([01])", {"line 1, column 3"}},
        Fault{"control_character", "\"a\nb\"", {"control character"}},
        Fault{"invalid_utf8", "{\"a\": \"\xff\"}", {"UTF-8", "line 1, column 8", "last read: '\"?'"}},
        Fault{"utf8_surrogate", "\"\xed\xa0\x80\"", {"UTF-8"}},
        Fault{"lone_surrogate_escape", R"("\ud800")", {"surrogate"}},
        Fault{"duplicate_key", R"({"a": 1, "b": 2, "a": 3})", {"duplicate key \"a\"", "top level"}},
        Fault{"duplicate_key_inside", R"({"m": {"n": {"a": 1, "a": 1}}})", {"duplicate key \"a\"", "\"m.n\""}},
        Fault{"duplicate_key_in_list", R"({"m": [{"a": 1, "a": 1}]})", {"duplicate key \"a\"", "\"m.[]\""}},
        Fault{"duplicate_key_by_escape", R"({"a": 1, "\u0061": 1})", {"duplicate key \"a\""}},
        Fault{"duplicate_key_with_line_break", "{\"a\\nb\": 1, \"a\\nb\": 1}", {R"(duplicate key "a\nb")"}},
        Fault{"too_deep", nested_lists(101), {"nested deeper than 100"}},
        Fault{"much_too_deep", std::string(1000000, '['), {"nested deeper than 100"}}),
    [](const auto& fault) { return fault.param.name; });

TEST(ParseJson, LongTokensDoNotFlowIntoTheMessage) {
  try {
    parse_json("[" + std::string(100000, 'x'), "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_LT(error.message().size(), 400u);
  }
}

TEST(ParseJson, IsLinearInTheNumberOfKeys) {
  std::string text = "{";
  for (int key = 0; key < 200000; ++key) text += (key == 0 ? "\"" : ",\"") + std::to_string(key) + "\":0";
  // A search through all earlier keys for each one would take minutes.
  EXPECT_EQ(parse_json(text + "}", "x").size(), 200000u);
}

TEST(VisitJsonMembers, HandsMembersOverInTheirOrder) {
  std::vector<std::string> members;
  visit_json_members(R"({"b": {"x": [1, {"y": 2}]}, "a": 3, "c": []})", "x", 5,
                     [&](const std::string& name, const Json& value) { members.push_back(name + value.dump()); });
  EXPECT_EQ(members, (std::vector<std::string>{R"(b{"x":[1,{"y":2}]})", "a3", "c[]"}));
}

TEST(VisitJsonMembers, IsAsStrictAsParsing) {
  const auto expect_corrupt = [](std::string_view text, const std::vector<std::string>& parts) {
    testing::expect_error(ErrorCode::corrupt, parts,
                          [&] { visit_json_members(text, "x.json", 4, [](const std::string&, const Json&) {}); });
  };
  expect_corrupt(R"({"a": 1, "b": 2, "a": 3})", {"x.json", "duplicate key \"a\""});
  expect_corrupt(R"({"a": 1} 2)", {"x.json", "line 1, column 10"});
  expect_corrupt(std::string_view("{}\0", 3), {"zero byte at position 2"});
  expect_corrupt("[1, 2]", {"x.json: found [1,2]; a JSON object"});
  expect_corrupt(R"({"a": 1, "b": [1, 2, 3, 4]})", {"x.json: \"b\" holds more than 4 values"});
}

TEST(ReadJsonFile, NamesTheFile) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("a.json", "{\"a\" 1}");
  testing::expect_error(ErrorCode::corrupt, {file.string(), "line 1, column 6"}, [&] { read_json_file(file); });
  testing::expect_error(ErrorCode::not_found, {"missing.json"},
                        [&] { read_json_file(folder.path() / "missing.json"); });
}

TEST(Excerpt, IsShortAndOnOneLine) {
  EXPECT_EQ(excerpt(parse_json(R"([1, "a\nb", {"c": null}])", "x")), R"([1,"a\nb",{"c":null}])");
  EXPECT_EQ(excerpt(std::string(200, 'a')), "\"" + std::string(79, 'a') + "...");
  // A two-byte character across the cut is left out whole.
  EXPECT_EQ(excerpt(std::string(78, 'a') + "\u00e9\u00e9"), "\"" + std::string(78, 'a') + "...");
}

}  // namespace
}  // namespace lamina
