#include "comm/local/ordered_sum.h"

#include <cstdint>
#include <functional>

#include "tensor/bf16.h"

namespace lamina::local {
namespace {

template <typename Element, typename Widen, typename Narrow>
void sum(std::size_t count, const std::vector<const std::byte*>& addends, std::span<std::byte* const> sums,
         Widen widen_element, Narrow narrow_sum) {
  const auto element = [](const std::byte* array, std::size_t i) { return reinterpret_cast<const Element*>(array)[i]; };
  for (std::size_t i = 0; i < count; ++i) {
    float total = widen_element(element(addends.front(), i));
    for (std::size_t addend = 1; addend < addends.size(); ++addend) total += widen_element(element(addends[addend], i));
    for (std::byte* target : sums) reinterpret_cast<Element*>(target)[i] = narrow_sum(total);
  }
}

}  // namespace

void sum_in_order(DType dtype, std::size_t size_bytes, const std::vector<const std::byte*>& addends,
                  std::span<std::byte* const> sums) {
  if (dtype == DType::bf16)
    sum<std::uint16_t>(size_bytes / sizeof(std::uint16_t), addends, sums, widen, narrow);
  else
    sum<float>(size_bytes / sizeof(float), addends, sums, std::identity(), std::identity());
}

}  // namespace lamina::local
