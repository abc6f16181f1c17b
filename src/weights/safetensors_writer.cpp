#include "weights/safetensors_writer.h"

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"

namespace lamina {
namespace {

constexpr std::size_t kAlignment = 8;

/// The header, and the bytes of data that it announces.
struct Header {
  std::string text;
  std::size_t data_bytes = 0;
};

Header make_header(std::span<const TensorSpec> tensors) {
  Json json = Json::object();
  std::size_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    expects(tensor.name != "__metadata__" && !json.contains(tensor.name), "the name {} of a tensor is taken",
            tensor.name);
    const std::size_t end = offset + tensor.size_bytes();
    json[tensor.name] = {
        {"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape.extents()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = json.dump();
  text.resize(align_up(text.size(), kAlignment), ' ');
  return {std::move(text), offset};
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(AtomicFile& file, std::span<const TensorSpec> tensors) : file_(file) {
  const Header header = make_header(tensors);
  std::array<std::byte, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<std::byte>(static_cast<std::uint64_t>(header.text.size()) >> (8 * i));
  file_.write(length);
  file_.write(std::as_bytes(std::span(header.text)));
  missing_bytes_ = header.data_bytes;
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  expects(bytes.size() <= missing_bytes_, "{}: {} bytes are written, {} are left of the tensors",
          file_.destination().string(), bytes.size(), missing_bytes_);
  file_.write(bytes);
  missing_bytes_ -= bytes.size();
}

void SafetensorsWriter::finish() const {
  expects(missing_bytes_ == 0, "{}: {} bytes of the tensors are missing", file_.destination().string(), missing_bytes_);
}

void write_safetensors(AtomicFile& file, std::span<const NamedTensor> tensors) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) {
    expects(tensor.is_contiguous(), "tensor {} to be written is not contiguous", name);
    specs.push_back({name, tensor.dtype(), tensor.shape()});
  }
  SafetensorsWriter writer(file, specs);
  for (const NamedTensor& named : tensors) writer.write({named.tensor.data(), named.tensor.span_bytes()});
  writer.finish();
}

}  // namespace lamina
