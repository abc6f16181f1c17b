#include "pipelines/host_transfer.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/bf16.h"

namespace lamina {

void upload_floats(StagingUploader& uploader, std::span<const float> values, const TensorView& destination) {
  expects(destination.is_contiguous() && destination.shape().elements() == static_cast<std::int64_t>(values.size()),
          "{} values for a tensor {}", values.size(), to_string(destination.shape()));
  if (destination.dtype() == DType::f32) return uploader.upload(destination.data(), std::as_bytes(values), "upload");
  expects(destination.dtype() == DType::bf16, "floats cannot be uploaded as {}", to_string(destination.dtype()));
  std::vector<std::uint16_t> narrowed(values.size());
  std::ranges::transform(values, narrowed.begin(), narrow);
  uploader.upload(destination.data(), std::as_bytes(std::span(narrowed)), "upload");
}

FloatDownload::FloatDownload(Device& device, DType dtype, std::int64_t count)
    : memory_(device.allocate_pinned(host_bytes(dtype, count), "results")), dtype_(dtype), count_(count) {
  expects(dtype == DType::f32 || dtype == DType::bf16, "a download of {} as floats", to_string(dtype));
}

void FloatDownload::copy_async(Stream& stream, const ConstTensorView& source, std::int64_t offset) {
  const std::int64_t elements = source.shape().elements();
  expects(source.dtype() == dtype_ && source.is_contiguous() && offset >= 0 && elements <= count_ - offset,
          "{} values at {} into a download of {}", elements, offset, count_);
  std::byte* destination = memory_.data() + static_cast<std::size_t>(offset) * size_of(dtype_);
  stream.copy_to_host_async(destination, source.data(), source.span_bytes(), "download");
}

std::vector<float> FloatDownload::values() const {
  if (dtype_ == DType::f32) {
    const float* begin = reinterpret_cast<const float*>(memory_.data());
    return {begin, begin + count_};
  }
  const auto* begin = reinterpret_cast<const std::uint16_t*>(memory_.data());
  std::vector<float> widened(static_cast<std::size_t>(count_));
  std::transform(begin, begin + count_, widened.begin(), [](std::uint16_t bits) { return widen(bits); });
  return widened;
}

}  // namespace lamina
