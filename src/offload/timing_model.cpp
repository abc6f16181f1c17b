#include "offload/timing_model.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "base/bytes.h"
#include "base/error.h"
#include "offload/ring_layout.h"

namespace lamina {
namespace {

using std::chrono::nanoseconds;

/// Bytes of a visited unit that may be overwritten from `free` on.
struct Retired {
  RingLayout::Occupant bytes;
  nanoseconds free{0};
};

class StreamPlayer {
 public:
  explicit StreamPlayer(const TimingInputs& inputs) : inputs_(inputs), layout_(inputs.ring_bytes) {
    prediction_.visits.reserve(inputs.passes * inputs.units.size());
    for (std::size_t pass = 0; pass < inputs.passes; ++pass)
      for (std::size_t unit = 0; unit < inputs.units.size(); ++unit)
        prediction_.visits.push_back({.pass = pass, .unit = unit});
  }

  TimingPrediction play() {
    const std::size_t units = inputs_.units.size();
    for (std::size_t pass = 0; pass < inputs_.passes; ++pass) {
      const nanoseconds pass_begin = compute_lane_;
      announced_visits_ = std::min(pass + 2, inputs_.passes) * units;
      prefetch();
      for (std::size_t unit = 0; unit < units; ++unit) {
        visit(prediction_.visits[pass * units + unit]);
        prefetch();
      }
      prediction_.steady_pass = compute_lane_ - pass_begin;
    }
    prediction_.total = compute_lane_;
    return std::move(prediction_);
  }

 private:
  const UnitCost& cost(const VisitTiming& timing) const { return inputs_.units[timing.unit]; }

  void prefetch() {
    for (; next_fetch_ < announced_visits_; ++next_fetch_) {
      VisitTiming& timing = prediction_.visits[next_fetch_];
      if (cost(timing).resident) continue;
      if (!layout_.push(cost(timing).image_bytes)) return;
      fetch(timing, layout_.occupants().back());
    }
  }

  void fetch(VisitTiming& timing, const RingLayout::Occupant& place) {
    const auto overwritten = [&](const Retired& retired) { return retired.bytes.overlaps(place); };
    timing.copy_begin = copy_lane_;
    for (const Retired& retired : retired_)
      if (overwritten(retired)) timing.copy_begin = std::max(timing.copy_begin, retired.free);
    std::erase_if(retired_, overwritten);  // later copies are behind this one

    copy_lane_ = timing.copy_begin;
    timing.ready = move(cost(timing));
    timing.copy_end = copy_lane_;
    prediction_.actions.push_back({StreamAction::Kind::fetch, timing.pass, timing.unit});
  }

  /// Brings a unit to its place, piece by piece; returns the time at which it is there.
  nanoseconds move(const UnitCost& unit) {
    const std::size_t pieces = unit.encoded ? unit.encoded->segments : inputs_.gather ? inputs_.gather->chunks : 1;
    const std::size_t piece_bytes = divide_up(unit.wire_bytes(), pieces);
    nanoseconds arrived{0};
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      if (unit.encoded) wait_for_landing();
      copy(divide_up(piece_bytes, inputs_.gather ? inputs_.gather->ranks : 1));
      arrived = inputs_.gather ? gather(piece_bytes, *inputs_.gather) : copy_lane_;
      if (unit.encoded) arrived = decode(arrived, unit.encoded->decode / static_cast<std::int64_t>(pieces));
    }
    return arrived;
  }

  void copy(std::size_t size_bytes) {
    copy_lane_ += transfer_time(size_bytes, inputs_.link_bytes_per_second);
    prediction_.copied_bytes += size_bytes;
  }

  nanoseconds gather(std::size_t size_bytes, const GatherCost& gathering) {
    gather_lane_ = std::max(gather_lane_, copy_lane_) + transfer_time(size_bytes, gathering.bytes_per_second);
    return gather_lane_;
  }

  nanoseconds decode(nanoseconds arrived, nanoseconds duration) {
    decode_lane_ = std::max(decode_lane_, arrived) + duration;
    decoded_.push_back(decode_lane_);
    return decode_lane_;
  }

  /// A segment lands where the one that came `landing_segments` before it was decoded.
  void wait_for_landing() {
    if (decoded_.size() < inputs_.landing_segments) return;
    copy_lane_ = std::max(copy_lane_, decoded_.front());
    decoded_.pop_front();
  }

  void visit(VisitTiming& timing) {
    timing.compute_begin = std::max(compute_lane_, timing.ready);
    timing.stall = timing.compute_begin - compute_lane_;
    timing.compute_end = timing.compute_begin + cost(timing).compute;
    compute_lane_ = timing.compute_end;
    prediction_.stall += timing.stall;
    prediction_.actions.push_back({StreamAction::Kind::compute, timing.pass, timing.unit});
    if (cost(timing).resident) return;
    retired_.push_back({layout_.occupants().front(), timing.compute_end});
    layout_.pop_oldest();
  }

  const TimingInputs& inputs_;
  RingLayout layout_;
  std::vector<Retired> retired_;
  std::size_t next_fetch_ = 0;        // index into visits
  std::size_t announced_visits_ = 0;  // those before it may be fetched
  nanoseconds copy_lane_{0};          // each lane is free from then on
  nanoseconds gather_lane_{0};
  nanoseconds decode_lane_{0};
  std::deque<nanoseconds> decoded_;  // ends of the segments whose place none has taken yet
  nanoseconds compute_lane_{0};
  TimingPrediction prediction_;
};

void validate(const TimingInputs& inputs) {
  if (inputs.gather && (inputs.gather->ranks == 0 || inputs.gather->chunks == 0))
    fail(ErrorCode::invalid_argument, "an all-gather of {} chunks by {} ranks", inputs.gather->chunks,
         inputs.gather->ranks);
  for (std::size_t i = 0; i < inputs.units.size(); ++i) {
    const UnitCost& unit = inputs.units[i];
    if (unit.resident) continue;
    if (unit.image_bytes == 0 || unit.image_bytes > inputs.ring_bytes)
      fail(ErrorCode::invalid_argument, "unit {} of {} bytes cannot stream through a ring of {}", i, unit.image_bytes,
           inputs.ring_bytes);
    if (unit.encoded && (unit.wire_bytes() == 0 || unit.encoded->segments == 0 || inputs.landing_segments == 0))
      fail(ErrorCode::invalid_argument, "unit {} of {} encoded bytes in {} segments, and room for {} to land", i,
           unit.wire_bytes(), unit.encoded->segments, inputs.landing_segments);
  }
}

}  // namespace

nanoseconds transfer_time(std::size_t size_bytes, double bytes_per_second) {
  if (!(bytes_per_second > 0))
    fail(ErrorCode::invalid_argument, "a transfer rate of {} bytes/s; it must be positive", bytes_per_second);
  const double time_ns = std::ceil(static_cast<double>(size_bytes) * 1e9 / bytes_per_second);
  constexpr auto kLongest = static_cast<double>(std::numeric_limits<nanoseconds::rep>::max() / 2);
  if (!(time_ns < kLongest))
    fail(ErrorCode::invalid_argument, "{} bytes at {} bytes/s take too long to tell", size_bytes, bytes_per_second);
  return nanoseconds(static_cast<nanoseconds::rep>(time_ns));
}

TimingPrediction predict_timing(const TimingInputs& inputs) {
  validate(inputs);
  return StreamPlayer(inputs).play();
}

}  // namespace lamina
