#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "tensor/tensor_view.h"

namespace lamina {

/// Memory that maps of any size and lifetime share, first fit. Without a base it only measures: `peak_bytes` is what
/// the same sequence of calls needs of a real one. The base, aligned to `kAlignment`, outlives it.
class MapHeap {
 public:
  static constexpr std::size_t kAlignment = 256;

  explicit MapHeap(std::byte* base = nullptr) : base_(base) {}
  MapHeap(const MapHeap&) = delete;
  MapHeap& operator=(const MapHeap&) = delete;

  /// Memory for so many bytes, until the block goes. Null data while measuring. The heap outlives its blocks.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept;
    Block& operator=(Block&& other) noexcept;
    ~Block();

    std::byte* data() const noexcept { return data_; }

   private:
    friend class MapHeap;
    MapHeap* heap_ = nullptr;
    std::size_t offset_ = 0;
    std::byte* data_ = nullptr;
  };
  Block take(std::size_t size_bytes);

  std::size_t peak_bytes() const noexcept { return peak_bytes_; }

 private:
  std::byte* base_;
  std::map<std::size_t, std::size_t> taken_;  ///< offset -> bytes
  std::size_t peak_bytes_ = 0;
};

/// Where the maps between layers are.
enum class MapPlace { device, host };

/// Rows [begin, end) of a map; some may lie beyond its edges.
struct MapRows {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t count() const noexcept { return end - begin; }
};

/// A picture between two layers: [height, width, channels], channels last, contiguous, on the device or in pinned host
/// memory. Move-only where it owns its memory.
class FeatureMap {
 public:
  /// What somebody else holds on the device.
  explicit FeatureMap(const TensorView& on_device) : view_(on_device) {}

  std::int64_t height() const { return view_.size(0); }
  std::int64_t width() const { return view_.size(1); }
  std::int64_t channels() const { return view_.size(2); }
  std::int64_t pixels() const { return height() * width(); }
  DType dtype() const noexcept { return view_.dtype(); }
  MapPlace place() const noexcept { return place_; }

  /// The whole map, be it in host memory.
  const TensorView& view() const noexcept { return view_; }
  TensorView rows(const MapRows& rows) const { return view_.slice(0, rows.begin, rows.end); }
  /// Those of the rows that are there.
  MapRows clip(const MapRows& rows) const;

  /// The moments of its bands [bands, 2, channels] f64 on the device, for a norm that follows: see
  /// `ops::group_normalisation`.
  const TensorView& moments() const noexcept { return moments_; }

 private:
  friend class BandRunner;
  FeatureMap() = default;

  MapHeap::Block memory_;
  MapHeap::Block moments_memory_;
  TensorView view_;
  TensorView moments_;
  MapPlace place_ = MapPlace::device;
};

}  // namespace lamina
