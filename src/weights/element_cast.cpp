#include "weights/element_cast.h"

#include <cstring>

#include "base/error.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"

namespace lamina {
namespace {

using Cast = void (*)(const std::byte* source, std::byte* destination, std::int64_t count);

template <typename From, typename To, To (*convert)(From)>
void cast_each(const std::byte* source, std::byte* destination, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    From value{};
    std::memcpy(&value, source + i * static_cast<std::int64_t>(sizeof value), sizeof value);
    const To converted = convert(value);
    std::memcpy(destination + i * static_cast<std::int64_t>(sizeof converted), &converted, sizeof converted);
  }
}

std::uint16_t bf16_of_f16(std::uint16_t value) {
  return narrow(widen_f16(value));
}

/// Null where no cast leads there.
Cast find_cast(DType from, DType to) noexcept {
  if (from == DType::f32 && to == DType::bf16) return cast_each<float, std::uint16_t, narrow>;
  if (from == DType::bf16 && to == DType::f32) return cast_each<std::uint16_t, float, widen>;
  if (from == DType::f16 && to == DType::f32) return cast_each<std::uint16_t, float, widen_f16>;
  if (from == DType::f16 && to == DType::bf16) return cast_each<std::uint16_t, std::uint16_t, bf16_of_f16>;
  return nullptr;
}

}  // namespace

bool can_cast(DType from, DType to) noexcept {
  return find_cast(from, to) != nullptr;
}

void cast_elements(const std::byte* source, DType from, std::byte* destination, DType to, std::int64_t count) {
  const Cast cast = find_cast(from, to);
  expects(cast != nullptr, "no cast leads from {} to {}", to_string(from), to_string(to));
  cast(source, destination, count);
}

}  // namespace lamina
