#include "pipelines/host_transfer.h"

#include "base/error.h"

namespace lamina {

void upload_floats(StagingUploader& uploader, std::span<const float> values, const TensorView& destination) {
  expects(destination.dtype() == DType::f32 && destination.is_contiguous() &&
              destination.shape().elements() == static_cast<std::int64_t>(values.size()),
          "{} values for a tensor {}", values.size(), to_string(destination.shape()));
  uploader.upload(destination.data(), std::as_bytes(values), "upload");
}

FloatDownload::FloatDownload(Device& device, std::int64_t count)
    : memory_(device.allocate_pinned(host_bytes(count), "results")), count_(count) {}

void FloatDownload::copy_async(Stream& stream, const ConstTensorView& source, std::int64_t offset) {
  const std::int64_t elements = source.shape().elements();
  expects(source.dtype() == DType::f32 && source.is_contiguous() && offset >= 0 && elements <= count_ - offset,
          "{} values at {} into a download of {}", elements, offset, count_);
  std::byte* destination = memory_.data() + static_cast<std::size_t>(offset) * sizeof(float);
  stream.copy_to_host_async(destination, source.data(), source.span_bytes(), "download");
}

std::vector<float> FloatDownload::values() const {
  const float* begin = reinterpret_cast<const float*>(memory_.data());
  return {begin, begin + count_};
}

}  // namespace lamina
