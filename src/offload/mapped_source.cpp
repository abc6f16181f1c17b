#include "offload/mapped_source.h"

#include <algorithm>
#include <utility>

#include "offload/unit_layout.h"

namespace lamina {
namespace {

std::size_t largest_image(const OffloadPlan& plan) {
  std::size_t largest = UnitLayout::of(plan.outside).size_bytes;
  for (const Stack& stack : plan.stacks)
    for (const StreamUnit& unit : stack.units) largest = std::max(largest, UnitLayout::of(unit.groups).size_bytes);
  return largest;
}

}  // namespace

std::size_t MappedSource::staging_bytes(const OffloadPlan& plan) {
  return 2 * std::min(kStagingBytes, largest_image(plan));
}

MappedSource::MappedSource(Device& device, const OffloadPlan& plan, std::vector<WeightBinding> bindings,
                           std::size_t buffer_bytes)
    : bindings_(std::move(bindings)),
      packers_(plan, bindings_),
      events_(device),
      packer_(device.create_stream("packer")) {
  expects(buffer_bytes > 0 && buffer_bytes % UnitLayout::kAlignment == 0, "staging of {} bytes", buffer_bytes);
  const std::size_t size = std::min(buffer_bytes, largest_image(plan));
  for (Buffer& buffer : buffers_) {
    buffer.memory = device.allocate_pinned(size, "staging");
    buffer.watched = WatchedRange(device.order(), {buffer.memory.data(), size}, "packing staging");
    buffer.copied = device.create_event("staging copied");
  }
}

PackedPieces MappedSource::fetch_async(UnitRef unit, std::byte* destination, Stream& stream) {
  const std::vector<ImagePacker>& stack = packers_.units.at(unit.stack);
  const ImagePacker& next = stack[(unit.unit + 1) % stack.size()];
  return fetch(stack.at(unit.unit), &next, destination, stream, "fetch unit");
}

void MappedSource::fetch_outside_async(std::byte* destination, Stream& stream) {
  const bool streams = !packers_.units.empty();
  fetch(packers_.outside, streams ? &packers_.units.front().front() : nullptr, destination, stream, "fetch outside");
}

PackedPieces MappedSource::fetch(const ImagePacker& image, const ImagePacker* next, std::byte* destination,
                                 Stream& stream, std::string_view label) {
  check();
  PackedPieces pieces;
  for (std::size_t offset = 0; offset < image.size_bytes();) {
    Buffer& buffer = buffers_[std::exchange(next_buffer_, 1 - next_buffer_)];
    const std::span<std::byte> staging(buffer.memory.data(),
                                       std::min(buffer.memory.size_bytes(), image.size_bytes() - offset));
    PackedPiece piece{events_.take("pack begin"), events_.take("packed"), events_.take("packing wait")};
    packer_->wait(*buffer.copied);
    packer_->record(*piece.pack_begin);
    packer_->run_on_host_async(
        {"pack weights", {}, {{staging.data(), staging.size()}}},
        [this, &image, next = offset == 0 ? next : nullptr, offset, staging] { pack(image, next, offset, staging); });
    packer_->record(*piece.packed);
    stream.record(*piece.wait_begin);
    stream.wait(*piece.packed);
    stream.copy_to_device_async(destination + offset, staging.data(), staging.size(), label);
    stream.record(*buffer.copied);
    pieces.push_back(std::move(piece));
    offset += staging.size();
  }
  return pieces;
}

/// On the packer's thread.
void MappedSource::pack(const ImagePacker& image, const ImagePacker* next, std::size_t offset_bytes,
                        std::span<std::byte> destination) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (failure_) return;
  }
  try {
    if (next != nullptr) next->read_ahead();
    image.pack(offset_bytes, destination);
  } catch (const Error& error) {
    set_failure(error);
  } catch (const std::exception& error) {
    set_failure(Error(ErrorCode::internal, fmt::format("packing weights failed: {}", error.what())));
  }
}

void MappedSource::set_failure(Error error) {
  const std::lock_guard lock(failure_mutex_);
  failure_ = std::move(error);
}

void MappedSource::check() const {
  const std::lock_guard lock(failure_mutex_);
  if (failure_) throw *failure_;
}

std::size_t MappedSource::host_bytes() const {
  return buffers_[0].memory.size_bytes() + buffers_[1].memory.size_bytes();
}

}  // namespace lamina
