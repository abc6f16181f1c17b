#include "weights/safetensors_writer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/expect_error.h"
#include "base/temporary_folder.h"
#include "weights/checkpoint.h"
#include "weights/safetensors.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::TemporaryFolder;

template <typename T, std::size_t Count>
NamedTensor named(const std::string& name, DType dtype, const Shape& shape, const std::array<T, Count>& values) {
  return {name, ConstTensorView(std::as_bytes(std::span(values)).data(), dtype, shape)};
}

void write_file(const fs::path& path, const std::vector<NamedTensor>& tensors) {
  AtomicFile file(path);
  write_safetensors(file, tensors);
  file.commit();
}

template <typename T, std::size_t Count>
void expect_values(const ConstTensorView& found, const std::array<T, Count>& expected) {
  ASSERT_EQ(found.span_bytes(), sizeof(expected));
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), sizeof(expected)), 0);
}

class SafetensorsWriterTest : public ::testing::Test {
 protected:
  const std::array<float, 6> matrix_{0.0f, -1.5f, 2.0f, 3.25f, -0.0f, 1e-30f};
  const std::array<std::uint8_t, 3> odd_{7, 8, 9};
  const std::array<std::uint16_t, 2> half_{0x3f80, 0xc000};
  const std::array<double, 1> scalar_{0.1};
  const std::vector<NamedTensor> tensors_{
      named("z.matrix", DType::f32, {2, 3}, matrix_), named("odd", DType::u8, {3}, odd_),
      NamedTensor{"empty", ConstTensorView(nullptr, DType::f32, {0, 4})}, named("half", DType::bf16, {2, 1}, half_),
      named("a \"quoted\"\nname", DType::f64, {}, scalar_)};
  const TemporaryFolder folder_;
};

TEST_F(SafetensorsWriterTest, WritesWhatTheReaderReads) {
  const fs::path path = folder_.path() / "out.safetensors";
  write_file(path, tensors_);
  const Checkpoint checkpoint = Checkpoint::open_file(path);
  EXPECT_EQ(checkpoint.tensors().size(), 5u);
  expect_values(checkpoint.view({"z.matrix", DType::f32, {2, 3}}), matrix_);
  expect_values(checkpoint.view({"odd", DType::u8, {3}}), odd_);
  expect_values(checkpoint.view({"half", DType::bf16, {2, 1}}), half_);
  expect_values(checkpoint.view({"a \"quoted\"\nname", DType::f64, {}}), scalar_);
  EXPECT_EQ(checkpoint.view({"empty", DType::f32, {0, 4}}).span_bytes(), 0u);
}

TEST_F(SafetensorsWriterTest, KeepsTheOrderAndAlignsTheData) {
  const fs::path path = folder_.path() / "out.safetensors";
  write_file(path, tensors_);
  const SafetensorsFile file = SafetensorsFile::open(path);
  const auto& stored = file.header().tensors;
  EXPECT_EQ(stored[0].spec.name, "z.matrix");
  EXPECT_EQ(stored[0].offset_bytes % 8, 0u);
  EXPECT_EQ(stored[1].spec.name, "odd");
  EXPECT_EQ(stored.back().offset_bytes, stored[0].offset_bytes + 24 + 3 + 4);
}

/// The bytes as the format describes them, written out by hand.
TEST_F(SafetensorsWriterTest, FollowsTheFormatByteByByte) {
  const fs::path path = folder_.path() / "out.safetensors";
  write_file(path, {tensors_[3]});
  const std::string header = R"({"half":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}}    )";
  EXPECT_EQ(header.size(), 64u);
  EXPECT_EQ(read_text_file(path), std::string("\x40\0\0\0\0\0\0\0", 8) + header + std::string("\x80\x3f\x00\xc0", 4));
}

TEST_F(SafetensorsWriterTest, EqualTensorsGiveEqualFiles) {
  write_file(folder_.path() / "a", tensors_);
  write_file(folder_.path() / "b", tensors_);
  EXPECT_EQ(read_text_file(folder_.path() / "a"), read_text_file(folder_.path() / "b"));
}

TEST_F(SafetensorsWriterTest, WritesAFileWithoutTensors) {
  write_file(folder_.path() / "none", {});
  EXPECT_TRUE(Checkpoint::open_file(folder_.path() / "none").tensors().empty());
}

TEST_F(SafetensorsWriterTest, RefusesWhatTheFormatCannotHold) {
  AtomicFile file(folder_.path() / "out");
  const NamedTensor columns{"columns", tensors_[0].tensor.slice(1, 0, 2)};
  expect_error(ErrorCode::internal, {"columns", "not contiguous"},
               [&] { write_safetensors(file, std::vector{columns}); });
  expect_error(ErrorCode::internal, {"odd", "taken"}, [&] {
    write_safetensors(file, std::vector{tensors_[1], tensors_[1]});
  });
  const NamedTensor reserved{"__metadata__", tensors_[1].tensor};
  expect_error(ErrorCode::internal, {"__metadata__"}, [&] { write_safetensors(file, std::vector{reserved}); });
}

TEST_F(SafetensorsWriterTest, TakesTheBytesInPiecesAndCountsThem) {
  const std::vector<TensorSpec> specs{{"odd", DType::u8, {3}}, {"half", DType::bf16, {2, 1}}};
  write_file(folder_.path() / "whole", {tensors_[1], tensors_[3]});
  AtomicFile file(folder_.path() / "pieces");
  SafetensorsWriter writer(file, specs);
  const auto half = std::as_bytes(std::span(half_));
  writer.write(std::as_bytes(std::span(odd_)).first(2));
  writer.write(std::as_bytes(std::span(odd_)).last(1));
  writer.write(half.first(1));
  expect_error(ErrorCode::internal, {"pieces", "4 bytes are written, 3 are left"}, [&] { writer.write(half); });
  expect_error(ErrorCode::internal, {"pieces", "3 bytes of the tensors are missing"}, [&] { writer.finish(); });
  writer.write(half.last(3));
  writer.finish();
  file.commit();
  EXPECT_EQ(read_text_file(folder_.path() / "pieces"), read_text_file(folder_.path() / "whole"));
}

}  // namespace
}  // namespace lamina
