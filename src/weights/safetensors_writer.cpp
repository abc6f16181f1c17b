#include "weights/safetensors_writer.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"

namespace lamina {
namespace {

constexpr std::size_t kAlignment = 8;

std::string header_text(std::span<const NamedTensor> tensors) {
  Json header = Json::object();
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    expects(tensor.is_contiguous(), "tensor {} to be written is not contiguous", name);
    expects(name != "__metadata__" && !header.contains(name), "the name {} of a tensor is taken", name);
    const std::size_t end = offset + tensor.span_bytes();
    header[name] = {
        {"dtype", to_string(tensor.dtype())}, {"shape", tensor.shape().extents()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize(align_up(text.size(), kAlignment), ' ');
  return text;
}

}  // namespace

void write_safetensors(AtomicFile& file, std::span<const NamedTensor> tensors) {
  const std::string header = header_text(tensors);
  std::array<std::byte, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<std::byte>(static_cast<std::uint64_t>(header.size()) >> (8 * i));
  file.write(length);
  file.write(std::as_bytes(std::span(header)));
  for (const NamedTensor& named : tensors) file.write({named.tensor.data(), named.tensor.span_bytes()});
}

}  // namespace lamina
