#include "offload/image_packer.h"

#include <algorithm>

#include "base/error.h"
#include "offload/unit_layout.h"

namespace lamina {

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

void ImagePacker::pack_slice(const Member& member, std::size_t offset_bytes, std::span<std::byte> destination) {
  expects(offset_bytes == 0 && destination.size() == member.size_bytes, "a slice of {} packed in pieces",
          member.binding->tensor.name);
  const TensorSpec& whole = member.slice->stored();
  std::vector<std::byte> scratch(whole.size_bytes());
  pack_weight(*member.binding, 0, scratch);
  member.slice->copy(ConstTensorView(scratch.data(), whole.dtype, whole.shape), destination.data());
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
