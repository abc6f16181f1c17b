#pragma once

#include <cstddef>

namespace lamina {

/// How many ranks hold every image together, and in how many steps it is gathered.
struct Sharding {
  std::size_t ranks = 1;   ///< 1: whole images on every rank, nothing is gathered
  std::size_t chunks = 1;  ///< at least 1; while one is gathered, the next is on the links
  bool operator==(const Sharding&) const = default;
};

/// Where a rank keeps its shards.
enum class ShardPlace {
  host,   ///< in pinned memory
  device  ///< in memory of its device, which they never leave
};

/// Where the shards of an image lie in it. On the device the image is padded to `ranks * chunks` pieces, chunk after
/// chunk, a piece of every rank in each:
///
///     | chunk 0: rank 0, rank 1, ... | chunk 1: rank 0, rank 1, ... | ...
///
/// A rank's shard is its pieces, which lie one behind the other where it is kept. Pieces are 256-byte aligned.
struct ShardLayout {
  Sharding sharding;
  std::size_t piece_bytes = 0;

  static ShardLayout of(std::size_t image_bytes, const Sharding& sharding);

  std::size_t chunk_bytes() const noexcept { return sharding.ranks * piece_bytes; }
  std::size_t shard_bytes() const noexcept { return sharding.chunks * piece_bytes; }
  /// Of the image on the device.
  std::size_t padded_bytes() const noexcept { return sharding.chunks * chunk_bytes(); }
  std::size_t piece_offset(std::size_t chunk, std::size_t rank) const noexcept {
    return chunk * chunk_bytes() + rank * piece_bytes;
  }
};

/// Bytes that an image takes on the device.
std::size_t device_bytes(std::size_t image_bytes, const Sharding& sharding);

}  // namespace lamina
