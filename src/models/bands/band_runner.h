#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/stream.h"
#include "models/bands/feature_map.h"
#include "offload/event_pool.h"
#include "ops/op_context.h"
#include "tensor/arena.h"

namespace lamina {

struct BandOptions {
  MapPlace place = MapPlace::device;
  /// Of a layer's output, most that are made at once, where that is a row or more. By default an eighth of it, but at
  /// least 1 Mi and at most 32 Mi; rows count as if they had 128 channels or more. Sums are grouped by bands, so
  /// results depend on it, and on nothing else here.
  std::optional<std::int64_t> band_elements = std::nullopt;
};

/// One of the maps that a layer reads.
struct BandInput {
  const FeatureMap& map;
  /// The rows of it that these rows of the output are made of; they may reach beyond the map's edges.
  std::function<MapRows(const MapRows& output)> rows_for;
};

/// Runs a model layer by layer, and each layer band by band: the same operations on the same bands wherever the maps
/// between the layers are, so the same bytes come out. Maps on the host come to the device in two buffers for each
/// input, and leave it from two more, so that a band is on the link, both ways, while another one is computed:
///
///     fetch:    wait slot free     · copy band -> slot      · record fetched
///     compute:  wait fetched, left · layer                  · record made
///     store:    wait made          · copy result -> host    · record left
///
/// Used by the launching thread; context, arena and heaps outlive it.
class BandRunner {
 public:
  /// `data` holds the maps, where `options.place` says, `moments` on the device.
  BandRunner(ops::OpContext& context, Arena& arena, const BandOptions& options, MapHeap& data, MapHeap& moments);
  BandRunner(const BandRunner&) = delete;
  BandRunner& operator=(const BandRunner&) = delete;

  ops::OpContext& context() const noexcept { return context_; }
  Arena& arena() const noexcept { return arena_; }

  FeatureMap make_map(DType dtype, std::int64_t height, std::int64_t width, std::int64_t channels);

  /// A layer's work on one band: inputs as far as they lie within their maps, and the output's rows, which are also the
  /// input's where the output map is one of the inputs.
  struct Band {
    MapRows rows;
    std::span<const TensorView> inputs;
    TensorView output;
  };
  using Layer = std::function<void(const Band& band)>;

  /// Runs the layer on all bands of the output. A map of the runner gets its moments. `layer` may take from the arena;
  /// it is rewound behind each band. A map that is an input and the output needs its own rows alone.
  void run(const std::vector<BandInput>& inputs, const FeatureMap& output, const Layer& layer);

  /// The whole map on the device: itself, or a copy in the arena.
  TensorView read_whole(const FeatureMap& map);
  /// Writes back what `read_whole` gave, and takes its moments.
  void write_whole(const TensorView& whole, const FeatureMap& map);

 private:
  class Slots;

  std::int64_t band_rows(const FeatureMap& map) const;
  std::int64_t band_count(const FeatureMap& map) const;
  MapRows band_of(const FeatureMap& map, std::int64_t band) const;
  Slots make_slots(const BandInput& input, const FeatureMap& output);
  TensorView fetch(const Slots& slots, std::size_t slot, const MapRows& rows);
  void store(const Slots& slots, std::size_t slot, const MapRows& rows);
  void measure(const FeatureMap& map, std::int64_t band, const ConstTensorView& rows);
  bool streams() const noexcept { return fetch_ != nullptr; }

  ops::OpContext& context_;
  Arena& arena_;
  BandOptions options_;
  MapHeap& data_;
  MapHeap& moments_;
  EventPool events_;
  std::unique_ptr<Stream> fetch_;  ///< null unless maps are on the host, and while planning
  std::unique_ptr<Stream> store_;
};

/// Runs `model` with maps in memory of just the size that it needs, found by running it on shapes first: taken from
/// `arena`, or pinned. On the device it enqueues and returns; with maps on the host it returns when all is done. Gives
/// the bytes of pinned memory. Throws out_of_host_memory.
std::size_t run_in_bands(ops::OpContext& context, Arena& arena, const BandOptions& options,
                         const std::function<void(BandRunner& runner)>& model);

}  // namespace lamina
