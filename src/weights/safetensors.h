#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/input_file.h"
#include "tensor/tensor_spec.h"
#include "tensor/tensor_view.h"

namespace lamina {

/// A tensor of a safetensors file and where its bytes stand, counted from the start of the file.
struct StoredTensor {
  TensorSpec spec;
  std::size_t offset_bytes = 0;
  std::size_t size_bytes = 0;
};

/// What the header of a safetensors file says, checked against the length of the file.
struct SafetensorsHeader {
  /// In the order of their bytes.
  std::vector<StoredTensor> tensors;
  /// The strings under "__metadata__".
  std::map<std::string, std::string> metadata;

  /// Parses and checks the header of a whole file, mapped or read; `source` names it in errors. Looks at no tensor
  /// byte. Throws corrupt naming the file, the tensor and the field for: a header that is cut short, longer than 100
  /// MB, not a JSON object or has duplicate keys; fields that are missing or mistyped; unknown dtypes; shapes that
  /// overflow; offsets that are reversed, overlap, leave a hole, contradict shape x dtype or end before or behind the
  /// file. Throws incompatible for pickles and GGUF files, not_implemented for more axes than `Shape` has.
  /// Source: https://github.com/huggingface/safetensors#format
  static SafetensorsHeader parse(std::span<const std::byte> file, const std::string& source);
};

/// A mapped safetensors file. Views point into the mapping and live as long as this object, moves included. Thread safe
/// after construction.
class SafetensorsFile {
 public:
  /// Throws as `FileMapping::map` and `SafetensorsHeader::parse` do.
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return file_.path(); }
  /// The very file that is mapped, for reading.
  const InputFile& file() const noexcept { return file_; }
  const SafetensorsHeader& header() const noexcept { return header_; }

  /// The bytes of one of `header().tensors`. The format packs tensors without padding, so an odd-length tensor leaves
  /// all later ones unaligned: read elements through memcpy unless the address is known to be aligned.
  ConstTensorView view(const StoredTensor& tensor) const;

 private:
  SafetensorsFile(InputFile file, FileMapping mapping, SafetensorsHeader header);

  InputFile file_;
  FileMapping mapping_;
  SafetensorsHeader header_;
};

}  // namespace lamina
