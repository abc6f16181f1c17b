#include "engine/result_files.h"

#include <utility>
#include <vector>

#include "pipelines/pictures/image.h"
#include "weights/safetensors_writer.h"

namespace lamina {

namespace {

std::vector<std::byte> png_bytes(const GenerateResult& result) {
  std::vector<PictureText> texts;
  for (const auto& [key, value] : result.settings) texts.push_back({key, value});
  return encode_png({result.picture.height, result.picture.width, result.picture.rgb}, texts);
}

}  // namespace

std::vector<std::uint8_t> encode_png(const GenerateResult& result) {
  const std::vector<std::byte> bytes = png_bytes(result);
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {begin, begin + bytes.size()};
}

void write_png(AtomicFile file, const GenerateResult& result) {
  file.write(png_bytes(result));
  file.commit();
}

void write_tensors(AtomicFile file, const GenerateResult& result) {
  std::vector<NamedTensor> tensors;
  for (const ResultTensor& tensor : result.tensors)
    tensors.push_back({tensor.name, ConstTensorView(reinterpret_cast<const std::byte*>(tensor.values.data()),
                                                    DType::f32, Shape(std::span<const std::int64_t>(tensor.shape)))});
  write_safetensors(file, tensors);
  file.commit();
}

void write_png(const GenerateResult& result, const std::string& path) {
  write_png(AtomicFile(path), result);
}

void write_tensors(const GenerateResult& result, const std::string& path) {
  write_tensors(AtomicFile(path), result);
}

}  // namespace lamina
