#include "offload/checkpoint_source.h"

#include "base/error.h"
#include "offload/pack_member.h"
#include "offload/unit_layout.h"

namespace lamina {

void CheckpointSource::fetch_async(UnitRef unit, std::byte* destination, Stream& stream) {
  upload(plan_.stacks.at(unit.stack).units.at(unit.unit).groups, destination, stream);
}

void CheckpointSource::fetch_outside_async(std::byte* destination, Stream& stream) {
  upload(plan_.outside, destination, stream);
}

void CheckpointSource::upload(const std::vector<ParameterGroup>& groups, std::byte* destination, Stream& stream) {
  expects(&stream == &staging_.stream(), "weights staged for stream '{}' asked for on '{}'", staging_.stream().name(),
          stream.name());
  const UnitLayout layout = UnitLayout::of(groups);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const ParameterGroup& group = groups[i];
    std::byte* place = destination + layout.group_offsets[i];
    for (std::size_t member = 0; member < group.members.size(); ++member) {
      const std::size_t size = group.members[member].size_bytes();
      if (group.slices.empty()) {
        staging_.upload(place, {checkpoint_.view(group.members[member]).data(), size}, "load weights");
      } else {
        std::vector<std::byte> part(size);
        pack_member(checkpoint_, group, member, part.data());
        staging_.upload(place, part, "load weights");
      }
      place += size;
    }
  }
}

}  // namespace lamina
