#include <cstdint>

#include "ops/cpu_launch.h"
#include "ops/cpu_ops.h"

namespace lamina::ops::cpu {

namespace {

/// Calls visit(packed index, packed channel, pixel index) for every element of the packed tokens, in their order.
template <typename Visit>
void for_each_packed(const ConstTensorView& pixels, Visit visit) {
  const std::int64_t row = pixels.stride(0);
  const std::int64_t column = pixels.stride(1);
  std::int64_t packed = 0;
  for (std::int64_t h = 0; h < pixels.size(0); h += 2) {
    for (std::int64_t w = 0; w < pixels.size(1); w += 2) {
      const std::int64_t corner = h * row + w * column;
      std::int64_t packed_channel = 0;
      for (std::int64_t c = 0; c < pixels.size(2); ++c) {
        for (const std::int64_t offset : {std::int64_t{0}, column, row, row + column}) {
          visit(packed++, packed_channel++, corner + offset + c);
        }
      }
    }
  }
}

}  // namespace

void unpack_latents(OpContext& context, const ConstTensorView& tokens, const LatentNormalisation& normalisation,
                    const TensorView& pixels) {
  const auto& [mean, deviation] = normalisation;
  cpu_launch(context, "unpack_latents", {tokens, mean, deviation}, {pixels}, {}, [=] {
    const auto* from = tokens.as<float>();
    auto* to = pixels.as<float>();
    const auto* shift = mean.as<float>();
    const auto* scale = deviation.as<float>();
    for_each_packed(pixels, [=](std::int64_t packed, std::int64_t channel, std::int64_t pixel) {
      to[pixel] = from[packed] * scale[channel] + shift[channel];
    });
  });
}

void pack_latents(OpContext& context, const ConstTensorView& pixels, const LatentNormalisation& normalisation,
                  const TensorView& tokens) {
  const auto& [mean, deviation] = normalisation;
  cpu_launch(context, "pack_latents", {pixels, mean, deviation}, {tokens}, {}, [=] {
    const auto* from = pixels.as<float>();
    auto* to = tokens.as<float>();
    const auto* shift = mean.as<float>();
    const auto* scale = deviation.as<float>();
    for_each_packed(pixels, [=](std::int64_t packed, std::int64_t channel, std::int64_t pixel) {
      to[packed] = (from[pixel] - shift[channel]) / scale[channel];
    });
  });
}

}  // namespace lamina::ops::cpu
