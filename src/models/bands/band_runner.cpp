#include "models/bands/band_runner.h"

#include <algorithm>
#include <array>

#include "device/device.h"
#include "device/event.h"
#include "ops/group_norm.h"

namespace lamina {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

constexpr std::size_t kSlots = 2;
constexpr std::int64_t kBands = 8;
// A layer that gives few channels, such as a picture's, takes many.
constexpr std::int64_t kLeastChannels = 128;
constexpr std::int64_t kLeastElements = std::int64_t{1} << 20;
constexpr std::int64_t kMostElements = std::int64_t{32} << 20;

}  // namespace

/// The buffers through which the bands of one map pass, in turn. None where it is on the device.
class BandRunner::Slots {
 public:
  /// Of bands of `rows` rows; 0: the map passes elsewhere.
  Slots(BandRunner& runner, const FeatureMap& map, std::int64_t rows) : map_(map) {
    if (map.place() == MapPlace::device || rows == 0) return;
    copies_ = runner.streams();
    for (std::size_t i = 0; i < kSlots; ++i) {
      memory_[i] = runner.arena_.take(map.dtype(), {rows, map.width(), map.channels()});
      arrived_[i] = runner.events_.take("band arrived");
      left_[i] = runner.events_.take("band left");
    }
  }

  const FeatureMap& map() const noexcept { return map_; }
  /// Bands are copied, which they are not while planning.
  bool copies() const noexcept { return copies_; }
  TensorView at(std::size_t slot, const MapRows& rows) const {
    return map_.place() == MapPlace::host ? memory_[slot].slice(0, 0, rows.count()) : map_.rows(rows);
  }
  Event& arrived(std::size_t slot) const { return *arrived_[slot]; }
  /// What was in the buffer is used up, or on the host.
  Event& left(std::size_t slot) const { return *left_[slot]; }

 private:
  const FeatureMap& map_;
  bool copies_ = false;
  std::array<TensorView, kSlots> memory_;
  std::array<std::shared_ptr<Event>, kSlots> arrived_;
  std::array<std::shared_ptr<Event>, kSlots> left_;
};

BandRunner::BandRunner(ops::OpContext& context, Arena& arena, const BandOptions& options, MapHeap& data,
                       MapHeap& moments)
    : context_(context),
      arena_(arena),
      options_(options),
      data_(data),
      moments_(moments),
      events_(context.stream().device()) {
  if (options.place == MapPlace::device || context.is_planning()) return;
  fetch_ = context.stream().device().create_stream("fetch bands");
  store_ = context.stream().device().create_stream("store bands");
}

std::int64_t BandRunner::band_rows(const FeatureMap& map) const {
  const std::int64_t row = map.width() * std::max(map.channels(), kLeastChannels);
  const std::int64_t elements =
      options_.band_elements.value_or(std::clamp(row * map.height() / kBands, kLeastElements, kMostElements));
  const std::int64_t most = std::max<std::int64_t>(elements / row, 1);
  return ceil_div(map.height(), ceil_div(map.height(), most));
}

std::int64_t BandRunner::band_count(const FeatureMap& map) const {
  return ceil_div(map.height(), band_rows(map));
}

FeatureMap BandRunner::make_map(DType dtype, std::int64_t height, std::int64_t width, std::int64_t channels) {
  FeatureMap map;
  map.place_ = options_.place;
  map.view_ = TensorView(nullptr, dtype, {height, width, channels});
  map.memory_ = data_.take(map.view_.span_bytes());
  map.view_ = TensorView(map.memory_.data(), dtype, {height, width, channels});
  map.moments_ = TensorView(nullptr, DType::f64, {band_count(map), 2, channels});
  map.moments_memory_ = moments_.take(map.moments_.span_bytes());
  map.moments_ = TensorView(map.moments_memory_.data(), DType::f64, map.moments_.shape());
  return map;
}

void BandRunner::measure(const FeatureMap& map, std::int64_t band, const ConstTensorView& rows) {
  if (map.moments().rank() == 0) return;  // somebody else's
  ops::channel_moments(context_, rows, map.moments().slice(0, band, band + 1).reshape({2, map.channels()}));
}

MapRows BandRunner::band_of(const FeatureMap& map, std::int64_t band) const {
  const std::int64_t rows = band_rows(map);
  return {band * rows, std::min((band + 1) * rows, map.height())};
}

/// For the most rows that a band of the output needs.
BandRunner::Slots BandRunner::make_slots(const BandInput& input, const FeatureMap& output) {
  std::int64_t most = 0;
  if (&input.map != &output)
    for (std::int64_t band = 0; band < band_count(output); ++band)
      most = std::max(most, input.map.clip(input.rows_for(band_of(output, band))).count());
  return {*this, input.map, most};
}

TensorView BandRunner::fetch(const Slots& slots, std::size_t slot, const MapRows& rows) {
  const TensorView band = slots.at(slot, rows);
  if (!slots.copies()) return band;
  fetch_->wait(slots.left(slot));
  fetch_->copy_to_device_async(band.data(), slots.map().rows(rows).data(), band.span_bytes(), "fetch band");
  fetch_->record(slots.arrived(slot));
  context_.stream().wait(slots.arrived(slot));
  return band;
}

void BandRunner::store(const Slots& slots, std::size_t slot, const MapRows& rows) {
  if (!slots.copies()) return;
  const std::shared_ptr<Event> made = events_.take("band made");
  const TensorView band = slots.at(slot, rows);
  context_.stream().record(*made);
  store_->wait(*made);
  store_->copy_to_host_async(slots.map().rows(rows).data(), band.data(), band.span_bytes(), "store band");
  store_->record(slots.left(slot));
}

void BandRunner::run(const std::vector<BandInput>& inputs, const FeatureMap& output, const Layer& layer) {
  const std::size_t mark = arena_.used_bytes();
  if (streams()) {
    const std::shared_ptr<Event> before = events_.take("layer begins");
    context_.stream().record(*before);
    fetch_->wait(*before);
  }
  const Slots results(*this, output, band_rows(output));
  std::vector<Slots> sources;
  for (const BandInput& input : inputs) sources.push_back(make_slots(input, output));

  const std::size_t band_mark = arena_.used_bytes();
  for (std::int64_t band = 0; band < band_count(output); ++band) {
    const std::size_t slot = static_cast<std::size_t>(band) % kSlots;
    const MapRows rows = band_of(output, band);
    std::vector<TensorView> views;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const FeatureMap& map = inputs[i].map;
      views.push_back(fetch(&map == &output ? results : sources[i], slot, map.clip(inputs[i].rows_for(rows))));
    }
    if (results.copies()) context_.stream().wait(results.left(slot));
    const TensorView result = results.at(slot, rows);
    layer({rows, views, result});
    measure(output, band, result);
    arena_.rewind(band_mark);
    for (const Slots& source : sources)
      if (source.copies()) context_.stream().record(source.left(slot));
    store(results, slot, rows);
  }
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    if (results.copies()) context_.stream().wait(results.left(slot));
  arena_.rewind(mark);
}

TensorView BandRunner::read_whole(const FeatureMap& map) {
  if (map.place() == MapPlace::device) return map.view();
  const TensorView whole = arena_.take(map.dtype(), map.view().shape());
  if (streams())
    context_.stream().copy_to_device_async(whole.data(), map.view().data(), whole.span_bytes(), "fetch map");
  return whole;
}

void BandRunner::write_whole(const TensorView& whole, const FeatureMap& map) {
  for (std::int64_t band = 0; band < band_count(map); ++band) {
    const MapRows rows = band_of(map, band);
    measure(map, band, whole.slice(0, rows.begin, rows.end));
  }
  if (map.place() == MapPlace::host && streams())
    context_.stream().copy_to_host_async(map.view().data(), whole.data(), whole.span_bytes(), "store map");
}

std::size_t run_in_bands(ops::OpContext& context, Arena& arena, const BandOptions& options,
                         const std::function<void(BandRunner& runner)>& model) {
  const std::size_t mark = arena.used_bytes();
  MapHeap measured_data;
  MapHeap measured_moments;
  {
    Arena shapes;
    ops::OpContext planning = ops::OpContext::planning(context.stream());
    BandRunner runner(planning, shapes, options, measured_data, measured_moments);
    model(runner);
  }
  const auto elements = [](const MapHeap& heap) { return Shape{static_cast<std::int64_t>(heap.peak_bytes())}; };
  MapHeap moments(arena.take(DType::u8, elements(measured_moments)).data());
  const bool on_host = options.place == MapPlace::host;
  PinnedBuffer pinned;
  if (on_host && !context.is_planning())
    pinned = context.stream().device().allocate_pinned(measured_data.peak_bytes(), "staging");
  MapHeap data(on_host ? pinned.data() : arena.take(DType::u8, elements(measured_data)).data());
  BandRunner runner(context, arena, options, data, moments);
  model(runner);
  if (on_host && !context.is_planning()) context.stream().synchronize();
  arena.rewind(mark);
  return on_host ? measured_data.peak_bytes() : 0;
}

}  // namespace lamina
