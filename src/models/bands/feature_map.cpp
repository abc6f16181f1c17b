#include "models/bands/feature_map.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"

namespace lamina {

MapHeap::Block::Block(Block&& other) noexcept
    : heap_(std::exchange(other.heap_, nullptr)), offset_(other.offset_), data_(other.data_) {}

MapHeap::Block& MapHeap::Block::operator=(Block&& other) noexcept {
  if (this == &other) return *this;
  if (heap_ != nullptr) heap_->taken_.erase(offset_);
  heap_ = std::exchange(other.heap_, nullptr);
  offset_ = other.offset_;
  data_ = other.data_;
  return *this;
}

MapHeap::Block::~Block() {
  if (heap_ != nullptr) heap_->taken_.erase(offset_);
}

MapHeap::Block MapHeap::take(std::size_t size_bytes) {
  const std::size_t size = align_up(std::max<std::size_t>(size_bytes, 1), kAlignment);
  std::size_t offset = 0;
  for (const auto& [begin, taken] : taken_) {
    if (begin - offset >= size) break;
    offset = begin + taken;
  }
  taken_.emplace(offset, size);
  peak_bytes_ = std::max(peak_bytes_, offset + size);
  Block block;
  block.heap_ = this;
  block.offset_ = offset;
  block.data_ = base_ == nullptr ? nullptr : base_ + offset;
  return block;
}

MapRows FeatureMap::clip(const MapRows& rows) const {
  const std::int64_t begin = std::clamp<std::int64_t>(rows.begin, 0, height());
  return {begin, std::clamp(rows.end, begin, height())};
}

}  // namespace lamina
