#include "weights/weight_binding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/expect_error.h"
#include "base/temporary_folder.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"
#include "weights/crafted_safetensors.h"

namespace lamina {
namespace {

/// A tensor that is stored transposed: more columns than are read at once, more rows than are turned at once, and
/// neither a whole number of times.
constexpr std::int64_t kRows = 77;
constexpr std::int64_t kColumns = 150;

struct Dtypes {
  DType stored;
  DType runtime;
};

void PrintTo(const Dtypes& dtypes, std::ostream* out) {
  *out << to_string(dtypes.stored) << " as " << to_string(dtypes.runtime);
}

class Transposition : public ::testing::TestWithParam<Dtypes> {
 protected:
  Transposition() : stored_(static_cast<std::size_t>(kRows * kColumns) * size_of(GetParam().stored)) {
    std::mt19937 random(3);
    // 0x00 .. 0x3F in each byte: no NaN in any dtype.
    for (std::byte& byte : stored_) byte = static_cast<std::byte>(random() % 64);
    const std::string header = fmt::format(R"({{"w_t":{{"dtype":"{}","shape":[{},{}],"data_offsets":[0,{}]}}}})",
                                           to_string(GetParam().stored), kColumns, kRows, stored_.size());
    std::string bytes = testing::crafted_safetensors(header);
    bytes.append(reinterpret_cast<const char*>(stored_.data()), stored_.size());
    checkpoint_ = std::make_unique<Checkpoint>(Checkpoint::open_file(folder_.write("m.safetensors", bytes)));
  }

  WeightBinding binding() const {
    return bind_weight(*checkpoint_, {"w", GetParam().runtime, {kRows, kColumns}}, [](const std::string&) {
      return StoredForm{"w_t", std::nullopt, true};
    });
  }

  /// Element by element. A cast is from bf16, which is the upper half of an f32.
  std::vector<std::byte> expected() const {
    const std::size_t stored_size = size_of(GetParam().stored);
    const std::size_t size = size_of(GetParam().runtime);
    std::vector<std::byte> bytes(static_cast<std::size_t>(kRows * kColumns) * size);
    for (std::size_t row = 0; row < kRows; ++row)
      for (std::size_t column = 0; column < kColumns; ++column)
        std::memcpy(&bytes[(row * kColumns + column) * size + size - stored_size],
                    &stored_[(column * kRows + row) * stored_size], stored_size);
    return bytes;
  }

 private:
  testing::TemporaryFolder folder_;
  std::vector<std::byte> stored_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

INSTANTIATE_TEST_SUITE_P(Dtypes, Transposition,
                         ::testing::Values(Dtypes{DType::u8, DType::u8}, Dtypes{DType::bf16, DType::bf16},
                                           Dtypes{DType::f32, DType::f32}, Dtypes{DType::f64, DType::f64},
                                           Dtypes{DType::bf16, DType::f32}));

TEST_P(Transposition, IsUndoneWholeAndInPiecesOfAnySize) {
  const std::vector<std::byte> whole = expected();
  const std::size_t size = size_of(GetParam().runtime);
  for (const std::size_t piece_elements : {1UL << 20, 149UL, 150UL, 151UL, 5000UL}) {
    std::vector<std::byte> bytes(whole.size());
    for (std::size_t offset = 0; offset < bytes.size(); offset += piece_elements * size)
      pack_weight(binding(), offset,
                  std::span(bytes).subspan(offset, std::min(piece_elements * size, bytes.size() - offset)));
    EXPECT_TRUE(bytes == whole) << "pieces of " << piece_elements << " elements";
  }
}

/// Stored values, one dtype, one axis or two.
class StoredValues {
 public:
  template <typename Element>
  StoredValues(DType dtype, std::vector<Element> elements, const std::string& shape) {
    std::string bytes =
        testing::crafted_safetensors(fmt::format(R"({{"w":{{"dtype":"{}","shape":{},"data_offsets":[0,{}]}}}})",
                                                 to_string(dtype), shape, elements.size() * sizeof(Element)));
    bytes.append(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(Element));
    checkpoint_ = std::make_unique<Checkpoint>(Checkpoint::open_file(folder_.write("m.safetensors", bytes)));
  }

  const Checkpoint& checkpoint() const { return *checkpoint_; }

 private:
  testing::TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

template <typename Element>
std::vector<Element> packed(const WeightBinding& binding, std::size_t piece_elements) {
  std::vector<Element> elements(static_cast<std::size_t>(binding.tensor.shape.elements()));
  for (std::size_t first = 0; first < elements.size(); first += piece_elements)
    pack_weight(
        binding, first * sizeof(Element),
        std::as_writable_bytes(std::span(elements).subspan(first, std::min(piece_elements, elements.size() - first))));
  return elements;
}

/// 1, the largest value, the smallest normal and subnormal ones, one of three bits that bf16 rounds to even, -0, -inf.
TEST(PackWeight, F16BecomesBf16AndF32WithoutAForm) {
  const std::vector<std::uint16_t> halves{0x3C00, 0x7BFF, 0x0400, 0x0001, 0x83FF, 0x3C0C, 0x8000, 0xFC00};
  const StoredValues stored(DType::f16, halves, "[8]");
  EXPECT_EQ(packed<float>(bind_weight(stored.checkpoint(), {"w", DType::f32, {8}}, {}), 3),
            (std::vector<float>{1, 65504, 0x1p-14F, 0x1p-24F, -0x1p-14F + 0x1p-24F, 1 + 0x1.8p-7F, -0.0F, -INFINITY}));
  EXPECT_EQ(packed<std::uint16_t>(bind_weight(stored.checkpoint(), {"w", DType::bf16, {8}}, {}), 3),
            (std::vector<std::uint16_t>{0x3F80, 0x4780, 0x3880, 0x3380, 0xB880, 0x3F82, 0x8000, 0xFF80}));
  EXPECT_EQ(stored.checkpoint().weight_dtype_of("w"), DType::bf16);
  testing::expect_error(ErrorCode::incompatible, {"tensor \"w\" is F16 [8]; F8_E4M3 [8] is expected"}, [&] {
    bind_weight(stored.checkpoint(), {"w", DType::f8_e4m3, {8}}, {});
  });
}

/// Element i becomes a * element + b * i.
class Linear final : public WeightChange {
 public:
  Linear(float a, float b) : a_(a), b_(b) {}
  void apply(std::int64_t first_element, std::span<float> values) const override {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = a_ * values[i] + b_ * static_cast<float>(first_element + static_cast<std::int64_t>(i));
  }

 private:
  float a_;
  float b_;
};

TEST(PackWeight, ChangesApplyInOrderBehindRegroupingAndBeforeTheCast) {
  constexpr std::int64_t kSide = 300;  // more elements than are changed at once
  std::vector<std::uint16_t> stored(kSide * kSide);
  for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = narrow(static_cast<float>(i % 100));
  const StoredValues values(DType::bf16, stored, "[300,300]");
  for (const bool transposed : {false, true}) {
    const WeightBinding binding =
        bind_weight(values.checkpoint(), {"x", DType::bf16, {kSide, kSide}}, [&](const std::string&) {
          return StoredForm{"w",
                            std::nullopt,
                            transposed,
                            {std::make_shared<Linear>(2.0F, 1.0F), std::make_shared<Linear>(-1.0F, 0.0F)}};
        });
    std::vector<std::uint16_t> expected(stored.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t from = transposed ? i % kSide * kSide + i / kSide : i;
      expected[i] = narrow(0 - (2 * static_cast<float>(from % 100) + static_cast<float>(i)));
    }
    for (const std::size_t piece : {1UL << 20, 40000UL, 777UL})
      EXPECT_TRUE(packed<std::uint16_t>(binding, piece) == expected) << transposed << ", pieces of " << piece;
  }
}

}  // namespace
}  // namespace lamina
