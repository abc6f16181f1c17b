#include "pipelines/pictures/lanczos.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "base/error.h"

namespace lamina {
namespace {

constexpr double kLobes = 3.0;
constexpr int kFractionBits = 22;
constexpr std::int64_t kChannels = 3;

/// The source pixels that one target pixel is made of.
struct Window {
  std::int64_t begin = 0;
  std::vector<std::int32_t> weights;  ///< fixed point, summing up to about 1
};

double sinc(double x) {
  return x == 0.0 ? 1.0 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi);
}

double lanczos(double x) {
  return x >= -kLobes && x < kLobes ? sinc(x) * sinc(x / kLobes) : 0.0;
}

std::int32_t to_fixed_point(double weight) {
  return static_cast<std::int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << kFractionBits));
}

/// One window per target pixel of a line.
std::vector<Window> make_windows(std::int64_t source_size, std::int64_t target_size) {
  const double scale = static_cast<double>(source_size) / static_cast<double>(target_size);
  const double filter_scale = std::max(scale, 1.0);
  const double support = kLobes * filter_scale;
  std::vector<Window> windows(static_cast<std::size_t>(target_size));
  for (std::size_t target = 0; target < windows.size(); ++target) {
    const double center = (static_cast<double>(target) + 0.5) * scale;
    const auto begin = std::max(static_cast<std::int64_t>(center - support + 0.5), std::int64_t{0});
    const auto end = std::min(static_cast<std::int64_t>(center + support + 0.5), source_size);
    std::vector<double> weights;
    double sum = 0.0;
    for (std::int64_t source = begin; source < end; ++source) {
      weights.push_back(lanczos((static_cast<double>(source) - center + 0.5) * (1.0 / filter_scale)));
      sum += weights.back();
    }
    windows[target].begin = begin;
    for (const double weight : weights) windows[target].weights.push_back(to_fixed_point(weight / sum));
  }
  return windows;
}

/// `first` is one channel of the window's first pixel, `stride` the distance to the next.
std::uint8_t apply(const Window& window, const std::uint8_t* first, std::int64_t stride) {
  std::int32_t sum = 1 << (kFractionBits - 1);
  for (const std::int32_t weight : window.weights) {
    sum += *first * weight;
    first += stride;
  }
  return static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

RgbImage resize_rows(const RgbImage& image, std::int64_t width) {
  RgbImage result{image.height, width, {}};
  result.pixels.reserve(static_cast<std::size_t>(image.height * width * kChannels));
  const std::vector<Window> windows = make_windows(image.width, width);
  for (std::int64_t row = 0; row < image.height; ++row) {
    const std::uint8_t* line = image.pixels.data() + row * image.width * kChannels;
    for (const Window& window : windows)
      for (std::int64_t channel = 0; channel < kChannels; ++channel)
        result.pixels.push_back(apply(window, line + window.begin * kChannels + channel, kChannels));
  }
  return result;
}

RgbImage resize_columns(const RgbImage& image, std::int64_t height) {
  RgbImage result{height, image.width, {}};
  const std::int64_t line = image.width * kChannels;
  result.pixels.reserve(static_cast<std::size_t>(height * line));
  for (const Window& window : make_windows(image.height, height))
    for (std::int64_t i = 0; i < line; ++i)
      result.pixels.push_back(apply(window, image.pixels.data() + window.begin * line + i, line));
  return result;
}

}  // namespace

RgbImage resize_lanczos(const RgbImage& image, std::int64_t height, std::int64_t width) {
  expects(height > 0 && width > 0 && image.height > 0 && image.width > 0, "a resize from {} x {} to {} x {}",
          image.height, image.width, height, width);
  const auto in_rows = [&](const RgbImage& source) {
    return width == source.width ? source : resize_rows(source, width);
  };
  const auto in_columns = [&](const RgbImage& source) {
    return height == source.height ? source : resize_columns(source, height);
  };
  const std::int64_t lost_rows = image.height - height;
  const std::int64_t lost_columns = image.width - width;
  const bool begins_with_columns = lost_rows > 0 && lost_rows > 2 * lost_columns;
  return begins_with_columns ? in_rows(in_columns(image)) : in_columns(in_rows(image));
}

}  // namespace lamina
