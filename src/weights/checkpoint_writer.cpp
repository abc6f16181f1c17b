#include "weights/checkpoint_writer.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "weights/safetensors_writer.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPieceBytes = kMiB;

std::size_t total_bytes(std::span<const TensorSpec> tensors) {
  std::size_t total = 0;
  for (const TensorSpec& tensor : tensors) total += tensor.size_bytes();
  return total;
}

void write_file(const fs::path& path, std::span<const TensorSpec> tensors, const TensorFiller& fill) {
  AtomicFile file(path);
  SafetensorsWriter writer(file, tensors);
  std::vector<std::byte> piece(kPieceBytes);
  for (const TensorSpec& tensor : tensors) {
    const std::size_t size = tensor.size_bytes();
    for (std::size_t offset = 0; offset < size; offset += kPieceBytes) {
      const std::span<std::byte> bytes = std::span(piece).first(std::min(kPieceBytes, size - offset));
      fill(tensor, offset, bytes);
      writer.write(bytes);
    }
  }
  writer.finish();
  file.commit();
}

void write_text(const fs::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace

std::vector<std::size_t> split_into_shards(std::span<const TensorSpec> tensors, std::size_t shards) {
  if (shards < 1 || shards > tensors.size())
    fail(ErrorCode::invalid_argument, "shards {}: {} tensors make 1 to {} shards", shards, tensors.size(),
         tensors.size());
  const auto total = static_cast<double>(total_bytes(tensors));
  std::vector<std::size_t> begin{0};
  std::size_t next = 0;
  std::size_t written = 0;
  for (std::size_t shard = 1; shard < shards; ++shard) {
    const double goal = total * static_cast<double>(shard) / static_cast<double>(shards);
    const std::size_t last = tensors.size() - (shards - shard);  // leaves one for each shard behind
    do written += tensors[next++].size_bytes();
    while (next < last && static_cast<double>(written) < goal);
    begin.push_back(next);
  }
  begin.push_back(tensors.size());
  return begin;
}

void write_checkpoint(const fs::path& folder, const std::string& stem, std::span<const TensorSpec> tensors,
                      std::size_t shards, const TensorFiller& fill) {
  const std::vector<std::size_t> begin = split_into_shards(tensors, shards);
  if (shards == 1) return write_file(folder / (stem + ".safetensors"), tensors, fill);
  Json weight_map = Json::object();
  for (std::size_t shard = 0; shard < shards; ++shard) {
    const std::string name = fmt::format("{}-{:05}-of-{:05}.safetensors", stem, shard + 1, shards);
    const auto members = tensors.subspan(begin[shard], begin[shard + 1] - begin[shard]);
    write_file(folder / name, members, fill);
    for (const TensorSpec& tensor : members) weight_map[tensor.name] = name;
  }
  const Json index = {{"metadata", {{"total_size", total_bytes(tensors)}}}, {"weight_map", std::move(weight_map)}};
  write_text(folder / (stem + ".safetensors.index.json"), index.dump(2) + "\n");
}

}  // namespace lamina
