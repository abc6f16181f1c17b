// The parts of tensors that tensor parallel ranks hold, packed whole and in pieces.

#include "offload/image_packer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/temporary_folder.h"
#include "offload/unit_layout.h"
#include "weights/checkpoint.h"
#include "weights/safetensors_writer.h"

namespace lamina::test {
namespace {

using Bytes = std::vector<std::byte>;
using Cut = ShardRule::Cut;

/// Places along an axis, of every group the rank's share.
std::vector<std::int64_t> share_of(const std::vector<std::int64_t>& groups, std::int64_t degree, std::int64_t rank) {
  std::vector<std::int64_t> indices;
  std::int64_t begin = 0;
  for (const std::int64_t group : groups) {
    for (std::int64_t i = 0; i < group; ++i)
      if (i * degree / group == rank) indices.push_back(begin + i);
    begin += group;
  }
  return indices;
}

/// A checkpoint of one tensor "w", bf16 and random, and the image of a rank's part of it.
class SlicedTensor {
 public:
  SlicedTensor(const Shape& shape, const ShardRule& rule, const TensorParallel& parallel, StoredForm form = {"w"},
               DType dtype = DType::bf16)
      : shape_(shape), rule_(rule), parallel_(parallel), form_(std::move(form)), dtype_(dtype) {
    std::mt19937 random(5);
    values_.resize(static_cast<std::size_t>(shape.elements()));
    for (std::uint16_t& value : values_) value = static_cast<std::uint16_t>(random() % 0x7F00);
    write();
    const TensorSpec whole{"model.w", dtype_, shape_};
    binding_.push_back(bind_weight(*checkpoint_, whole, [this](const std::string&) { return std::optional(form_); }));
    groups_ = {ParameterGroup::single(whole).sliced(
        [this](const TensorSpec& stored) { return TensorSlice(stored, rule_, parallel_); })};
  }

  const std::vector<ParameterGroup>& groups() const { return groups_; }
  const std::vector<WeightBinding>& bindings() const { return binding_; }

  /// What the image holds, an element at a time.
  Bytes expected() const {
    Bytes image(UnitLayout::of(groups_).size_bytes, std::byte{0});
    std::byte* place = image.data();
    const bool by_rows = rule_.cut == Cut::rows;
    const std::vector<std::int64_t> share = share_of(rule_.groups, parallel_.degree, parallel_.rank);
    const auto rows = by_rows ? static_cast<std::int64_t>(share.size()) : shape_[0];
    const auto columns = by_rows ? shape_[1] : static_cast<std::int64_t>(share.size());
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column) {
        const std::int64_t whole_row = by_rows ? share[static_cast<std::size_t>(row)] : row;
        const std::int64_t whole_column = by_rows ? column : share[static_cast<std::size_t>(column)];
        place = put(values_[static_cast<std::size_t>(whole_row * shape_[1] + whole_column)], place);
      }
    return image;
  }

 private:
  std::byte* put(std::uint16_t value, std::byte* place) const {
    const auto wide = static_cast<std::uint32_t>(value) << 16;  // as f32
    if (dtype_ == DType::bf16)
      std::memcpy(place, &value, sizeof value);
    else
      std::memcpy(place, &wide, sizeof wide);
    return place + size_of(dtype_);
  }

  void write() {
    std::vector<std::uint16_t> stored = values_;
    Shape shape = shape_;
    if (form_.transposed) {
      shape = {shape_[1], shape_[0]};
      for (std::int64_t row = 0; row < shape_[0]; ++row)
        for (std::int64_t column = 0; column < shape_[1]; ++column)
          stored[static_cast<std::size_t>(column * shape_[0] + row)] =
              values_[static_cast<std::size_t>(row * shape_[1] + column)];
    }
    AtomicFile file(folder_.path() / "w.safetensors");
    const std::vector<NamedTensor> tensors{
        {"w", ConstTensorView(reinterpret_cast<const std::byte*>(stored.data()), DType::bf16, shape)}};
    write_safetensors(file, tensors);
    file.commit();
    checkpoint_.emplace(Checkpoint::open_file(folder_.path() / "w.safetensors"));
  }

  testing::TemporaryFolder folder_;
  Shape shape_;
  ShardRule rule_;
  TensorParallel parallel_;
  StoredForm form_;
  DType dtype_;
  std::vector<std::uint16_t> values_;
  std::optional<Checkpoint> checkpoint_;
  std::vector<WeightBinding> binding_;
  std::vector<ParameterGroup> groups_;
};

/// The image from pieces of at most `piece` bytes.
Bytes pack(const SlicedTensor& tensor, std::size_t piece) {
  const ImagePacker packer(tensor.groups(), BindingMap(tensor.bindings()));
  Bytes image(packer.size_bytes(), std::byte{0xEE});
  for (std::size_t at = 0; at < image.size(); at += piece)
    packer.pack(at, std::span(image).subspan(at, std::min(piece, image.size() - at)));
  return image;
}

void expect_packed(const SlicedTensor& tensor) {
  const Bytes expected = tensor.expected();
  for (const std::size_t piece : {expected.size(), std::size_t{256}, std::size_t{768}, 70 * kKiB, kMiB + 256})
    EXPECT_TRUE(pack(tensor, piece) == expected) << "in pieces of " << piece;
}

/// Rows cut in long runs, which are packed in place, and in short ones.
TEST(ImagePacker, PacksPiecesOfAShareOfRows) {
  expect_packed({{600, 1000}, {Cut::rows, {200, 400}}, {2, 1}});
  expect_packed({{12, 10}, {Cut::rows, {4, 8}}, {4, 3}});
}

/// A matrix of 2 MB, whose share of columns is cut out of more than one stretch of it.
TEST(ImagePacker, PacksPiecesOfAShareOfColumns) {
  expect_packed({{1000, 1000}, {Cut::columns, {400, 600}}, {2, 0}});
  expect_packed({{1000, 1000}, {Cut::columns, {400, 600}}, {2, 1}});
  expect_packed({{333, 24}, {Cut::columns, {24}}, {8, 7}});
}

/// Rows of 800 kB, of which a share is a long run.
TEST(ImagePacker, PacksPiecesOfWideColumns) {
  expect_packed({{3, 400'000}, {Cut::columns, {100'000, 300'000}}, {2, 1}});
}

TEST(ImagePacker, PacksPiecesThroughEveryAdapter) {
  const StoredForm turned{"w", std::nullopt, true};
  const StoredForm as_rows{"w", RowRuns{0, 50, 50}, false};
  for (const ShardRule& rule : {ShardRule{Cut::rows, {100, 300}}, ShardRule{Cut::columns, {120, 480}}})
    for (const DType dtype : {DType::bf16, DType::f32}) {
      expect_packed({{400, 600}, rule, {4, 2}, turned, dtype});
      expect_packed({{400, 600}, rule, {4, 1}, as_rows, dtype});
    }
}

}  // namespace
}  // namespace lamina::test
