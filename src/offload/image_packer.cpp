#include "offload/image_packer.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/error.h"
#include "offload/unit_layout.h"

namespace lamina {
namespace {

constexpr std::size_t kLongRunBytes = 64 * kKiB;
constexpr std::size_t kStretchBytes = kMiB;
static_assert(kLongRunBytes <= kStretchBytes);

}  // namespace

BindingMap::BindingMap(const std::vector<WeightBinding>& bindings) {
  for (const WeightBinding& binding : bindings) by_name_.emplace(binding.tensor.name, &binding);
}

const WeightBinding& BindingMap::of(const TensorSpec& tensor) const {
  const auto found = by_name_.find(tensor.name);
  expects(found != by_name_.end() && found->second->tensor == tensor, "{} is not bound to any stored tensor",
          to_string(tensor));
  return *found->second;
}

ImagePacker::ImagePacker(const std::vector<ParameterGroup>& groups, const BindingMap& bindings) {
  const UnitLayout layout = UnitLayout::of(groups);
  size_bytes_ = layout.size_bytes;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    std::size_t offset = layout.group_offsets[group];
    const ParameterGroup& tensors = groups[group];
    for (std::size_t member = 0; member < tensors.members.size(); ++member) {
      members_.push_back({offset, tensors.members[member].size_bytes(), &bindings.of(tensors.stored(member)),
                          tensors.slices.empty() ? nullptr : &tensors.slices[member]});
      offset += members_.back().size_bytes;
    }
  }
}

void ImagePacker::pack(std::size_t offset_bytes, std::span<std::byte> destination) const {
  const std::size_t end = offset_bytes + destination.size();
  expects(end <= size_bytes_, "bytes [{}, {}) of an image of {}", offset_bytes, end, size_bytes_);
  const auto place = [&](std::size_t offset) { return destination.data() + (offset - offset_bytes); };
  std::size_t filled = offset_bytes;
  for (const Member& member : members_) {
    const std::size_t first = std::max(member.offset_bytes, offset_bytes);
    const std::size_t last = std::min(member.offset_bytes + member.size_bytes, end);
    if (first >= last) continue;
    std::fill(place(filled), place(first), std::byte{0});
    const std::span<std::byte> bytes{place(first), last - first};
    if (member.slice != nullptr)
      pack_slice(member, first - member.offset_bytes, bytes);
    else
      pack_weight(*member.binding, first - member.offset_bytes, bytes);
    filled = last;
  }
  std::fill(place(filled), place(end), std::byte{0});
}

/// Long runs are packed in place. Short ones, the columns of a row, are cut out of stretches of the whole tensor that
/// are packed into scratch one behind the other, as far as this piece reaches.
void ImagePacker::pack_slice(const Member& member, std::size_t offset_bytes, std::span<std::byte> destination) {
  const TensorSlice& slice = *member.slice;
  const TensorSlice::Run last = slice.run_at(offset_bytes + destination.size() - 1);
  std::vector<std::byte> scratch;
  std::size_t scratch_begin = 0;  // in the stored tensor
  while (!destination.empty()) {
    TensorSlice::Run run = slice.run_at(offset_bytes);
    run.size = std::min(run.size, destination.size());
    const std::span<std::byte> target = destination.first(run.size);
    if (run.size >= kLongRunBytes) {
      pack_weight(*member.binding, run.stored_offset, target);
    } else {
      if (run.stored_offset + run.size > scratch_begin + scratch.size()) {
        scratch_begin = run.stored_offset;
        scratch.resize(std::min(kStretchBytes, last.stored_offset + 1 - scratch_begin));
        pack_weight(*member.binding, scratch_begin, scratch);
      }
      std::memcpy(target.data(), scratch.data() + (run.stored_offset - scratch_begin), run.size);
    }
    offset_bytes += run.size;
    destination = destination.subspan(run.size);
  }
}

void ImagePacker::read_ahead() const noexcept {
  for (const Member& member : members_) lamina::read_ahead(*member.binding, 0, member.size_bytes);
}

namespace {

std::vector<std::vector<ImagePacker>> unit_packers(const OffloadPlan& plan, const BindingMap& bindings) {
  std::vector<std::vector<ImagePacker>> packers;
  for (const Stack& stack : plan.stacks) {
    std::vector<ImagePacker>& units = packers.emplace_back();
    for (const StreamUnit& unit : stack.units) units.emplace_back(unit.groups, bindings);
  }
  return packers;
}

}  // namespace

PartPackers::PartPackers(const OffloadPlan& plan, const std::vector<WeightBinding>& bindings)
    : units(unit_packers(plan, BindingMap(bindings))), outside(plan.outside, BindingMap(bindings)) {}

}  // namespace lamina
