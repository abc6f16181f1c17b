#include "gpu_probe/bare_stream.h"

#include <algorithm>
#include <utility>

#include "gpu_probe/check.h"

namespace lamina::probe {
BareStream::BareStream(std::vector<HostUnit> units, std::byte* ring, std::size_t ring_bytes, Timing timing,
                       cudaStream_t copy, cudaStream_t compute)
    : units_(std::move(units)), ring_(ring), layout_(ring_bytes), timing_(timing), copy_(copy), compute_(compute) {}

StreamTimes BareStream::run(std::size_t passes, const Compute& compute) {
  visits_ = create_visits(passes);
  std::vector<Event> ends;  // of passes; the first is the begin of all
  for (std::size_t i = 0; i <= passes; ++i) ends.push_back(create_event(Timing::on));
  std::vector<double> enqueue_ms;
  check(cudaEventRecord(ends[0].get(), compute_));
  for (std::size_t pass = 0; pass < passes; ++pass) {
    if (pass >= 2) check(cudaEventSynchronize(ends[pass - 1].get()));  // at most two passes ahead
    enqueue_ms.push_back(host_ms([&] {
      announced_ = std::min(pass + 2, passes) * units_.size();
      prefetch();
      for (std::size_t unit = 0; unit < units_.size(); ++unit) visit(pass * units_.size() + unit, compute);
      check(cudaEventRecord(ends[pass + 1].get(), compute_));
    }));
  }
  check(cudaStreamSynchronize(compute_));
  return times(ends, std::move(enqueue_ms));
}

std::vector<BareStream::Visit> BareStream::create_visits(std::size_t passes) const {
  std::vector<Visit> visits(passes * units_.size());
  for (Visit& visit : visits) {
    visit.ready = create_event(timing_);
    visit.free = create_event(timing_);
    if (timing_ == Timing::off) continue;
    for (Event* event : {&visit.copy_begin, &visit.wait_begin, &visit.wait_end}) *event = create_event(timing_);
  }
  return visits;
}

void BareStream::mark(const Event& event, cudaStream_t stream) const {
  if (event != nullptr) check(cudaEventRecord(event.get(), stream));
}

void BareStream::prefetch() {
  while (next_fetch_ < announced_ && try_fetch(next_fetch_)) ++next_fetch_;
}

bool BareStream::try_fetch(std::size_t visit) {
  const HostUnit& unit = units_[visit % units_.size()];
  const auto offset = layout_.push(unit.size_bytes);
  if (!offset) return false;
  const auto overlaps = [&](const Retired& retired) {
    return retired.bytes.offset < *offset + unit.size_bytes &&
           *offset < retired.bytes.offset + retired.bytes.size_bytes;
  };
  for (const Retired& retired : retired_)
    if (overlaps(retired)) check(cudaStreamWaitEvent(copy_, retired.free->get()));
  std::erase_if(retired_, overlaps);

  Visit& fetched = visits_[visit];
  fetched.weights = ring_ + *offset;
  mark(fetched.copy_begin, copy_);
  check(cudaMemcpyAsync(ring_ + *offset, unit.data, unit.size_bytes, cudaMemcpyHostToDevice, copy_));
  mark(fetched.ready, copy_);
  return true;
}

void BareStream::visit(std::size_t visit, const Compute& compute) {
  const Visit& entered = visits_[visit];
  expects(visit < next_fetch_, "visit {} was not fetched", visit);
  mark(entered.wait_begin, compute_);
  check(cudaStreamWaitEvent(compute_, entered.ready.get()));
  mark(entered.wait_end, compute_);
  prefetch();
  compute(visit % units_.size(), entered.weights);
  mark(entered.free, compute_);
  retired_.push_back({layout_.occupants().front(), &entered.free});
  layout_.pop_oldest();
  prefetch();
}

StreamTimes BareStream::times(const std::vector<Event>& ends, std::vector<double> enqueue_ms) const {
  StreamTimes result;
  std::vector<double> steps;
  for (std::size_t pass = kWarmPasses; pass + 1 < ends.size(); ++pass)
    steps.push_back(elapsed_ms(ends[pass], ends[pass + 1]));
  const auto passes = static_cast<double>(steps.size());
  result.step_ms = median(std::move(steps));
  result.first_step_ms = elapsed_ms(ends[0], ends[1]);
  result.enqueue_ms = median(std::move(enqueue_ms));
  if (timing_ == Timing::off) return result;
  for (std::size_t i = kWarmPasses * units_.size(); i < visits_.size(); ++i) {
    const Visit& visit = visits_[i];
    result.copy_ms += elapsed_ms(visit.copy_begin, visit.ready) / passes;
    result.stall_ms += elapsed_ms(visit.wait_begin, visit.wait_end) / passes;
    result.compute_ms += elapsed_ms(visit.wait_end, visit.free) / passes;
  }
  return result;
}

}  // namespace lamina::probe
