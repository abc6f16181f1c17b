#include "offload/pack_member.h"

#include <cstring>

namespace lamina {

std::byte* pack_member(const Checkpoint& checkpoint, const ParameterGroup& group, std::size_t member,
                       std::byte* destination) {
  const std::size_t size = group.members.at(member).size_bytes();
  if (size == 0) return destination;
  const ConstTensorView stored = checkpoint.view(group.stored(member));
  if (group.slices.empty())
    std::memcpy(destination, stored.data(), size);
  else
    group.slices[member].copy(stored, destination);
  return destination + size;
}

}  // namespace lamina
