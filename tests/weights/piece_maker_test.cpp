#include "weights/piece_maker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>

namespace lamina {
namespace {

/// 1.5 pieces, nothing, a few bytes, 8 pieces: more than are made ahead.
const std::vector<TensorSpec> kTensors{{"a", DType::u8, {PieceMaker::kPieceBytes * 3 / 2}},
                                       {"empty", DType::u8, {0}},
                                       {"b", DType::u8, {5}},
                                       {"c", DType::u8, {PieceMaker::kPieceBytes * 8}}};

/// Each byte tells tensor and place.
void fill(const TensorSpec& tensor, std::size_t offset, std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(tensor.name[0]) + (offset + i) / 1000);
}

std::vector<std::byte> whole() {
  std::vector<std::byte> bytes;
  for (const TensorSpec& tensor : kTensors) {
    std::vector<std::byte> piece(tensor.size_bytes());
    fill(tensor, 0, piece);
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  return bytes;
}

TEST(PieceMaker, GivesAllBytesInOrderHoweverSlowMakerAndTakerAre) {
  using std::chrono::milliseconds;
  for (const auto& [making, taking] : {std::pair{0, 0}, {3, 0}, {0, 3}}) {
    const TensorFiller slow = [making = making](const auto& tensor, std::size_t offset, std::span<std::byte> bytes) {
      std::this_thread::sleep_for(milliseconds(making));
      fill(tensor, offset, bytes);
    };
    PieceMaker pieces(kTensors, slow);
    std::vector<std::byte> bytes;
    std::vector<std::size_t> sizes;
    while (const auto piece = pieces.next()) {
      std::this_thread::sleep_for(milliseconds(taking));
      bytes.insert(bytes.end(), piece->begin(), piece->end());
      sizes.push_back(piece->size());
    }
    EXPECT_TRUE(bytes == whole());
    EXPECT_EQ(sizes.size(), 2 + 1 + 8U);
    EXPECT_EQ(pieces.next(), std::nullopt);
  }
}

TEST(PieceMaker, IsNeverMoreThanItsPiecesAhead) {
  std::atomic<std::size_t> made = 0;
  const TensorFiller count = [&](const auto&, std::size_t, std::span<std::byte>) { ++made; };
  PieceMaker pieces(kTensors, count);
  for (std::size_t taken = 1; pieces.next(); ++taken) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_LE(made, taken - 1 + PieceMaker::kPieces);
  }
  EXPECT_EQ(made, 11U);
}

TEST(PieceMaker, GivesWhatWasMadeBeforeTheFillerThrew) {
  const TensorFiller broken = [](const TensorSpec& tensor, std::size_t, std::span<std::byte>) {
    if (tensor.name == "b") throw std::runtime_error("no bytes of b");
  };
  PieceMaker pieces(kTensors, broken);
  EXPECT_EQ(pieces.next()->size(), PieceMaker::kPieceBytes);
  EXPECT_EQ(pieces.next()->size(), PieceMaker::kPieceBytes / 2);
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      pieces.next();
      FAIL() << "went on";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "no bytes of b");
    }
  }
}

TEST(PieceMaker, MayBeLeftAtAnyPoint) {
  for (std::size_t taken = 0; taken < 11; ++taken) {
    const TensorFiller filler = fill;
    PieceMaker pieces(kTensors, filler);
    for (std::size_t i = 0; i < taken; ++i) pieces.next();
  }
}

}  // namespace
}  // namespace lamina
