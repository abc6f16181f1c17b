#include "weights/weight_binding.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/temporary_folder.h"
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

}  // namespace
}  // namespace lamina
