#include "weights/foreign_format.h"

#include <algorithm>
#include <array>

namespace lamina {
namespace {

constexpr std::string_view kPickle =
    "is a Python pickle, which can run any code while it is read; safetensors are read alone, so download those of the "
    "model, or save it again with save_pretrained(..., safe_serialization=True)";
constexpr std::string_view kGguf =
    "holds GGUF weights, which are not supported; download the safetensors files of the model";

}  // namespace

std::optional<std::string_view> foreign_format(const std::filesystem::path& file) {
  constexpr std::array<std::string_view, 5> kPickles{".bin", ".ckpt", ".pt", ".pth", ".pkl"};
  const std::string extension = file.extension().string();
  if (extension == ".gguf") return kGguf;
  if (std::ranges::find(kPickles, extension) != kPickles.end()) return kPickle;
  return std::nullopt;
}

std::optional<std::string_view> foreign_format(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("GGUF")) return kGguf;
  if (text.starts_with("PK\x03\x04")) return kPickle;  // the archive that torch.save writes
  // A bare pickle of protocol 2 to 5. A safetensors header of such a length would begin with '{' at byte 8.
  if (text.size() > 8 && text[0] == '\x80' && text[1] >= '\x02' && text[1] <= '\x05' && text[8] != '{') return kPickle;
  return std::nullopt;
}

}  // namespace lamina
