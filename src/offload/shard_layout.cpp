#include "offload/shard_layout.h"

#include "base/bytes.h"
#include "base/error.h"
#include "offload/unit_layout.h"

namespace lamina {

ShardLayout ShardLayout::of(std::size_t image_bytes, const Sharding& sharding) {
  expects(sharding.ranks > 0 && sharding.chunks > 0, "an image in {} chunks for {} ranks", sharding.chunks,
          sharding.ranks);
  return {sharding, align_up(divide_up(image_bytes, sharding.ranks * sharding.chunks), UnitLayout::kAlignment)};
}

std::size_t device_bytes(std::size_t image_bytes, const Sharding& sharding) {
  return sharding.ranks == 1 ? image_bytes : ShardLayout::of(image_bytes, sharding).padded_bytes();
}

}  // namespace lamina
