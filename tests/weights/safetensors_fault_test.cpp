#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/expect_error.h"
#include "base/temporary_folder.h"
#include "weights/crafted_safetensors.h"
#include "weights/safetensors.h"

namespace lamina {
namespace {

using testing::crafted_safetensors;
using testing::length_bytes;

/// A file that must be refused, and what the message must tell besides the file.
struct Fault {
  const char* name;
  std::string file;
  std::vector<std::string> parts;
  ErrorCode code = ErrorCode::corrupt;
};

/// A file of one tensor "w" with this entry.
std::string one_tensor(std::string_view entry, std::size_t data_bytes = 0) {
  return crafted_safetensors(std::string(R"({"w":)").append(entry).append("}"), data_bytes);
}

/// The same of one F32 tensor with this shape and these offsets.
std::string one_f32(const std::string& shape, const std::string& offsets, std::size_t data_bytes = 0) {
  return one_tensor(R"({"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}", data_bytes);
}

/// Two U8 vectors "a" and "b" of four elements each.
std::string two_tensors(const std::string& a_offsets, const std::string& b_offsets, std::size_t data_bytes) {
  return crafted_safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a_offsets +
                                 R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b_offsets + "}}",
                             data_bytes);
}

std::string list_of_ones(std::size_t count) {
  std::string list = "[1";
  for (std::size_t i = 1; i < count; ++i) list += ",1";
  return list += "]";
}

class SafetensorsFaultTest : public ::testing::TestWithParam<Fault> {};

TEST(GitLfs, IsNamedWhereItsPointerStandsInPlaceOfTheFile) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("model.safetensors",
                                 "version https://git-lfs.github.com/spec/v1\n"
                                 "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
                                 "size 18170000000\n");
  testing::expect_error(ErrorCode::corrupt, {file.string(), "Git LFS pointer", "git lfs pull"},
                        [&] { SafetensorsFile::open(file); });
}

TEST_P(SafetensorsFaultTest, IsRefused) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("bad.safetensors", GetParam().file);
  std::vector<std::string> parts = GetParam().parts;
  parts.push_back(file.string());
  testing::expect_error(GetParam().code, parts, [&] { SafetensorsFile::open(file); });
}

std::string fault_name(const ::testing::TestParamInfo<Fault>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Header, SafetensorsFaultTest,
    ::testing::Values(
        Fault{"empty_file", "", {"0 bytes are no safetensors file"}},
        Fault{"seven_bytes", std::string(7, '\0'), {"7 bytes are no safetensors file"}},
        Fault{"length_0", length_bytes(0) + "{}", {"header length is 0"}},
        Fault{"length_alone", length_bytes(2), {"header length 2", "2 of its bytes are missing"}},
        Fault{"length_beyond_file", length_bytes(100) + "{}", {"header length 100", "98 of its bytes are missing"}},
        Fault{"length_of_whole_file", length_bytes(10) + "{}", {"header length 10", "8 of its bytes are missing"}},
        Fault{"length_100_MB", length_bytes(100'000'000) + "{}", {"header length 100000000", "99999998 of its bytes"}},
        Fault{
            "length_over_100_MB", length_bytes(100'000'001) + "{}", {"header length 100000001", "limit of 100000000"}},
        Fault{"length_near_2_to_63", length_bytes(INT64_MAX) + "{}", {"header length 9223372036854775807", "limit"}},
        Fault{"length_near_2_to_64", length_bytes(UINT64_MAX) + "{}", {"header length 18446744073709551615", "limit"}},
        Fault{"length_wraps_to_file", length_bytes(UINT64_MAX - 5) + "{}", {"header length 18446744073709551610"}},
        Fault{"not_json", crafted_safetensors("{\"w\": }"), {"not valid JSON", "column 7"}},
        Fault{"json_cut_short", crafted_safetensors("{\"w\":{"), {"not valid JSON"}},
        Fault{"text_behind_json", crafted_safetensors("{} {}"), {"not valid JSON", "column 4"}},
        Fault{"zero_padding", crafted_safetensors(std::string("{}\0\0", 4)), {"not valid JSON", "zero byte"}},
        Fault{"invalid_utf8", crafted_safetensors("{\"\xff\":{}}"), {"not valid JSON", "UTF-8"}},
        Fault{"deeply_nested", crafted_safetensors(std::string("{\"w\":").append(100000, '[')), {"JSON nested deeper"}},
        Fault{"list", crafted_safetensors("[]"), {"does not start with '{'"}},
        Fault{"leading_space", crafted_safetensors(" {}"), {"does not start with '{'"}},
        Fault{"byte_order_mark", crafted_safetensors("\xef\xbb\xbf{}"), {"does not start with '{'"}}),
    fault_name);

INSTANTIATE_TEST_SUITE_P(
    DuplicateKey, SafetensorsFaultTest,
    ::testing::Values(Fault{"tensor",
                            crafted_safetensors(R"({"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"w":{}})"),
                            {"duplicate key \"w\"", "(header)"}},
                      Fault{"field",
                            one_tensor(R"({"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]})"),
                            {"duplicate key \"dtype\" in \"w\"", "(header)"}},
                      Fault{"metadata",
                            crafted_safetensors(R"({"__metadata__":{},"__metadata__":{}})"),
                            {"duplicate key", "__meta"}}),
    fault_name);

INSTANTIATE_TEST_SUITE_P(
    Metadata, SafetensorsFaultTest,
    ::testing::Values(
        Fault{"list", crafted_safetensors(R"({"__metadata__":[1]})"), {"__metadata__ is [1]", "object of strings"}},
        Fault{"null", crafted_safetensors(R"({"__metadata__":null})"), {"__metadata__ is null"}},
        Fault{"number",
              crafted_safetensors(R"({"__metadata__":{"step":3}})"),
              {"__metadata__: \"step\" is 3", "string"}}),
    fault_name);

INSTANTIATE_TEST_SUITE_P(
    Entry, SafetensorsFaultTest,
    ::testing::Values(
        Fault{"no_object", one_tensor("3"), {"tensor \"w\": found 3", "object"}},
        Fault{"no_dtype", one_tensor(R"({"shape":[0],"data_offsets":[0,0]})"), {"\"w\"", "'dtype' is missing"}},
        Fault{"no_shape", one_tensor(R"({"dtype":"U8","data_offsets":[0,0]})"), {"\"w\"", "'shape' is missing"}},
        Fault{"no_offsets", one_tensor(R"({"dtype":"U8","shape":[0]})"), {"\"w\"", "'data_offsets' is missing"}},
        Fault{"dtype_number", one_tensor(R"({"dtype":8,"shape":[0],"data_offsets":[0,0]})"), {"\"w\"", "dtype is 8"}},
        Fault{"dtype_null", one_tensor(R"({"dtype":null,"shape":[0],"data_offsets":[0,0]})"), {"dtype is null"}},
        Fault{"dtype_unknown",
              one_tensor(R"({"dtype":"F33","shape":[1],"data_offsets":[0,4]})", 4),
              {"tensor \"w\"", "unknown dtype \"F33\""}},
        Fault{"dtype_lower_case", one_tensor(R"({"dtype":"f32","shape":[0],"data_offsets":[0,0]})"), {"unknown dtype"}},
        Fault{"shape_number", one_f32("4", "[0,16]", 16), {"\"w\"", "shape is 4"}},
        Fault{"shape_object", one_f32("{}", "[0,4]", 4), {"shape is {}"}},
        Fault{"extent_negative", one_f32("[2,-2]", "[0,16]", 16), {"\"w\"", "shape is [2,-2]"}},
        Fault{"extent_fraction", one_f32("[1.5]", "[0,6]", 6), {"shape is [1.5]"}},
        Fault{"extent_float", one_f32("[4.0]", "[0,16]", 16), {"shape is [4.0]"}},
        Fault{"extent_text", one_f32("[\"4\"]", "[0,16]", 16), {"shape is [\"4\"]"}},
        Fault{"extent_true", one_f32("[true]", "[0,4]", 4), {"shape is [true]"}},
        Fault{"extent_over_63_bits", one_f32("[9223372036854775808]", "[0,4]", 4), {"shape is [9223372036854775808]"}},
        Fault{"nine_axes",
              one_f32("[1,1,1,1,1,1,1,1,1]", "[0,4]", 4),
              {"tensor \"w\" has 9 axes", "at most 8"},
              ErrorCode::not_implemented},
        Fault{"a_million_axes",
              one_f32(list_of_ones(1'000'000), "[0,4]", 4),
              {"\"w.shape\" holds more than 100000 values"}},
        Fault{"long_message",
              one_f32(std::string("[").append(5000, '1').append("]"), "[0,4]", 4),
              {"not valid JSON", "number overflow"}},
        Fault{"name_with_line_break",
              crafted_safetensors(R"({"a\nb":{"dtype":"U8","shape":[1]}})"),
              {R"(tensor "a\nb": field 'data_offsets')"}}),
    fault_name);

INSTANTIATE_TEST_SUITE_P(
    Size, SafetensorsFaultTest,
    ::testing::Values(
        Fault{"elements_overflow",
              one_f32("[4294967296,4294967296]", "[0,0]"),
              {"\"w\"", "[4294967296, 4294967296] overflows"}},
        Fault{"elements_wrap_to_4", one_f32("[4611686018427387905,4]", "[0,16]", 16), {"overflows"}},
        Fault{"bytes_overflow", one_f32("[4611686018427387904]", "[0,0]"), {"[4611686018427387904] overflows"}},
        Fault{"zero_hides_overflow", one_f32("[4294967296,4294967296,0]", "[0,0]"), {"overflows"}},
        Fault{"shape_larger", one_f32("[5]", "[0,16]", 16), {"\"w\"", "[0, 16] span 16 bytes", "F32 [5] takes 20"}},
        Fault{"shape_smaller", one_f32("[3]", "[0,16]", 16), {"[0, 16] span 16 bytes", "F32 [3] takes 12"}},
        Fault{"scalar_without_bytes", one_f32("[]", "[0,0]"), {"span 0 bytes", "F32 [] takes 4"}},
        Fault{"empty_with_bytes", one_f32("[0]", "[0,4]", 4), {"span 4 bytes", "F32 [0] takes 0"}}),
    fault_name);

INSTANTIATE_TEST_SUITE_P(
    Offsets, SafetensorsFaultTest,
    ::testing::Values(
        Fault{"number", one_f32("[1]", "4", 4), {"\"w\"", "data_offsets is 4"}},
        Fault{"one", one_f32("[1]", "[4]", 4), {"data_offsets is [4]"}},
        Fault{"three", one_f32("[1]", "[0,4,8]", 4), {"data_offsets is [0,4,8]"}},
        Fault{"negative", one_f32("[1]", "[-4,0]", 4), {"data_offsets is [-4,0]"}},
        Fault{"fraction", one_f32("[1]", "[0,4.0]", 4), {"data_offsets is [0,4.0]"}},
        Fault{"over_64_bits",
              one_f32("[1]", "[0,18446744073709551616]", 4),
              {"data_offsets is [0,1.8446744073709552e+19]"}},
        Fault{"reversed", one_f32("[1]", "[4,0]", 4), {"\"w\"", "data_offsets [4, 0] are reversed"}},
        Fault{"end_near_2_to_64",
              one_f32("[1]", "[0,18446744073709551615]", 4),
              {"[0, 18446744073709551615] span 18446744073709551615 bytes"}},
        Fault{"both_near_2_to_64",
              one_f32("[1]", "[18446744073709551608,18446744073709551612]", 4),
              {"a hole of 18446744073709551608 bytes before tensor \"w\""}},
        Fault{"overlapping", two_tensors("[0,4]", "[3,7]", 7), {"tensor \"b\" overlap those of tensor \"a\""}},
        Fault{"equal", two_tensors("[0,4]", "[0,4]", 4), {"tensor \"b\" overlap those of tensor \"a\""}},
        Fault{"hole_in_front", two_tensors("[1,5]", "[5,9]", 9), {"a hole of 1 bytes before tensor \"a\""}},
        Fault{"hole_between", two_tensors("[6,10]", "[0,4]", 10), {"a hole of 2 bytes before tensor \"a\""}},
        Fault{"empty_tensor_inside",
              crafted_safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                  R"("b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})",
                                  4),
              {"tensor \"b\" overlap those of tensor \"a\""}},
        Fault{"past_the_end", two_tensors("[0,4]", "[4,8]", 7), {"cut short", "1 bytes are missing", "\"b\""}},
        Fault{"no_data_at_all", two_tensors("[0,4]", "[4,8]", 0), {"cut short", "8 bytes are missing"}},
        Fault{"trailing_byte", two_tensors("[0,4]", "[4,8]", 9), {"1 bytes behind the last tensor"}},
        Fault{"data_without_tensors", crafted_safetensors("{}", 3), {"3 bytes behind the last tensor"}}),
    fault_name);

/// One to three random edits of a valid file: bytes flipped, replaced by characters of the format, removed or doubled.
std::string mutated(std::string file, std::mt19937& random) {
  constexpr std::string_view kAlphabet = "0123456789{}[]\",:-.eE \\ntrueUF_";
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  for (std::size_t edits = 1 + below(3); edits > 0 && !file.empty(); --edits) {
    const std::size_t place = below(file.size());
    switch (below(5)) {
      case 0: file[place] = static_cast<char>(file[place] ^ (1 << below(8))); break;
      case 1: file[place] = kAlphabet[below(kAlphabet.size())]; break;
      case 2: file.erase(place, 1 + below(4)); break;
      case 3: file.insert(place, file.substr(below(file.size()), 1 + below(8))); break;
      case 4: file.resize(place); break;
    }
  }
  return file;
}

TEST(SafetensorsMutations, AreReadOrRefused) {
  const std::string valid = crafted_safetensors(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[12,15]},"c":{"dtype":"F32","shape":[],"data_offsets":[15,19]}})",
      19);
  ASSERT_EQ(SafetensorsHeader::parse(std::as_bytes(std::span(valid)), "valid").tensors.size(), 3u);
  std::mt19937 random(2024);
  int read = 0;
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::string file = mutated(valid, random);
    // An exact copy on the heap, so that the address sanitizer sees any byte read behind it.
    const std::vector<char> bytes(file.begin(), file.end());
    try {
      const SafetensorsHeader header = SafetensorsHeader::parse(std::as_bytes(std::span(bytes)), "mutated");
      for (const StoredTensor& tensor : header.tensors) {
        ASSERT_EQ(tensor.size_bytes, tensor.spec.size_bytes());
        ASSERT_LE(tensor.size_bytes, bytes.size());
        ASSERT_LE(tensor.offset_bytes, bytes.size() - tensor.size_bytes);
      }
      ++read;
    } catch (const Error& error) {
      ASSERT_TRUE(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::not_implemented) << error.message();
      ++refused;
    }
  }
  // Edits of names and data stay legal, most others do not: both ways were taken.
  EXPECT_GT(read, 20);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace lamina
