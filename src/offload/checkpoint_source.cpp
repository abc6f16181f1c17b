#include "offload/checkpoint_source.h"

#include "base/error.h"
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
  for (std::size_t group = 0; group < groups.size(); ++group) {
    std::byte* place = destination + layout.group_offsets[group];
    for (const TensorSpec& member : groups[group].members) {
      const std::size_t size = member.size_bytes();
      staging_.upload(place, {checkpoint_.view(member).data(), size}, "load weights");
      place += size;
    }
  }
}

}  // namespace lamina
