#include "weights/synthetic_weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace lamina {
namespace {

constexpr std::size_t kElementBytes = 2;
/// Elements that one hash gives: 16 bits for each.
constexpr std::size_t kPerHash = 4;
/// Hashes that are turned into values together, in loops that a compiler vectorises.
constexpr std::size_t kBatch = 256;

/// Every bit of the input changes half of the output's. Source: Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators, OOPSLA 2014; constants of Stafford's variant 13.
constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15U;

/// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

/// To bfloat16, nearest even. The value is finite.
std::uint16_t narrow(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

/// The uniform values of one tensor: element i is the i-th 16 bits of the hashes of 0, 1, 2, ...
class UniformValues {
 public:
  UniformValues(std::uint64_t key, double deviation)
      : key_(key), step_(static_cast<float>(2 * std::sqrt(3.0) * deviation / 65536)) {}

  /// The elements of the hashes from `first` on.
  void batch(std::uint64_t first, std::array<std::uint16_t, kBatch * kPerHash>& values) const {
    std::array<std::uint64_t, kBatch> hashes;
    for (std::size_t i = 0; i < kBatch; ++i) hashes[i] = mix(key_ + (first + i) * kGoldenRatio);
    static_assert(std::endian::native == std::endian::little, "the lowest 16 bits of a hash are its first element");
    std::memcpy(values.data(), hashes.data(), sizeof(values));
    for (std::uint16_t& value : values) value = value_of(value);
  }

 private:
  /// From the middles of 65536 equal steps, so the mean is exactly 0.
  std::uint16_t value_of(std::uint16_t bits) const {
    return narrow((static_cast<float>(static_cast<std::int32_t>(bits) - 32768) + 0.5F) * step_);
  }

  std::uint64_t key_;
  float step_;
};

void fill_uniform(const UniformValues& uniform, std::size_t first_element, std::span<std::byte> bytes) {
  std::array<std::uint16_t, kBatch * kPerHash> values;
  while (!bytes.empty()) {
    const std::size_t skipped = first_element % kPerHash;
    uniform.batch(first_element / kPerHash, values);
    const std::size_t count = std::min(values.size() - skipped, bytes.size() / kElementBytes);
    std::memcpy(bytes.data(), values.data() + skipped, count * kElementBytes);
    bytes = bytes.subspan(count * kElementBytes);
    first_element += count;
  }
}

void fill_constant(float value, std::span<std::byte> bytes) {
  const std::uint16_t bits = narrow(value);
  for (std::size_t i = 0; i < bytes.size(); i += kElementBytes) std::memcpy(bytes.data() + i, &bits, kElementBytes);
}

double fan_in(const Shape& shape) {
  double product = 1;
  for (std::size_t axis = 1; axis < shape.rank(); ++axis) product *= static_cast<double>(shape[axis]);
  return product;
}

bool is_centred(std::string_view name) {
  return name.ends_with("bias") || name.ends_with("mean");
}

}  // namespace

void fill_synthetic(const TensorSpec& tensor, std::uint64_t seed, std::size_t offset_bytes,
                    std::span<std::byte> bytes) {
  if (tensor.dtype != DType::bf16)
    fail(ErrorCode::not_implemented, "tensor {} is {}; synthetic weights are BF16", tensor.name,
         to_string(tensor.dtype));
  const std::size_t size = tensor.size_bytes();
  expects(bytes.size() <= size && offset_bytes <= size - bytes.size() && offset_bytes % kElementBytes == 0 &&
              bytes.size() % kElementBytes == 0,
          "bytes [{}, +{}) are no elements of {}", offset_bytes, bytes.size(), to_string(tensor));
  if (tensor.shape.rank() < 2) return fill_constant(is_centred(tensor.name) ? 0.0F : 1.0F, bytes);
  const UniformValues uniform(mix(mix(seed) ^ hash_of(tensor.name)), 1 / std::sqrt(fan_in(tensor.shape)));
  fill_uniform(uniform, offset_bytes / kElementBytes, bytes);
}

}  // namespace lamina
