#include "device/cpu/cpu_stream.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "device/cpu/cpu_event.h"
#include "device/cpu/cpu_runtime.h"
#include "device/cpu/make_stream.h"
#include "device/cpu/team_size.h"
#include "device/cpu/thread_sanitizer.h"
#include "device/device.h"

namespace lamina::cpu {
namespace {

using std::chrono::nanoseconds;

/// A copy, a fill or a launched operation.
struct Work {
  std::string name;
  std::vector<MemoryRange> reads;
  std::vector<MemoryRange> writes;
  std::size_t cost_bytes;  ///< of copies, fills and collectives
  std::function<void()> body;
};

class CpuStream final : public Stream {
 public:
  CpuStream(Device& device, CpuRuntime& runtime, std::string name);
  ~CpuStream() override;

  void enqueue_work(Access access, std::size_t cost_bytes, std::function<void()> body);
  void enqueue_meeting(Access access, std::size_t cost_bytes, std::function<nanoseconds(nanoseconds)> body);

 private:
  void do_copy_async(CopyDirection direction, std::byte* destination, const Access& access) override;
  void do_fill_async(std::byte* destination, std::byte value, const Access& access) override;
  void do_run_on_host_async(const Access& access, std::function<void()> work) override;
  void do_record(Event& event) override;
  bool do_wait(Event& event) override;
  void do_synchronize() override;

  void enqueue(std::function<void()> task);
  void run(const Work& work) noexcept;
  nanoseconds now() const;

  CpuRuntime& runtime_;
  // Of the worker's thread; the launching thread looks at them only while the worker is idle.
  nanoseconds virtual_time_{0};  ///< meaningless where the runtime has no virtual time
  std::optional<Error> error_;
  SerialWorker worker_;
};

CpuStream::CpuStream(Device& device, CpuRuntime& runtime, std::string name)
    : Stream(device, std::move(name)), runtime_(runtime), worker_("stream '" + this->name() + "'") {
  worker_.push(set_thread_team);
  runtime_.add_worker(worker_);
}

CpuStream::~CpuStream() {
  worker_.drain();
  runtime_.remove_worker(worker_);
  if (error_) spdlog::error("stream '{}' ends with an error nobody asked for: {}", name(), error_->message());
}

void CpuStream::enqueue_work(Access access, std::size_t cost_bytes, std::function<void()> body) {
  Work work{std::string(access.name), std::move(access.reads), std::move(access.writes), cost_bytes, std::move(body)};
  enqueue([this, work = std::move(work)] { run(work); });
}

void CpuStream::enqueue_meeting(Access access, std::size_t cost_bytes, std::function<nanoseconds(nanoseconds)> body) {
  enqueue_work(std::move(access), cost_bytes, [this, body = std::move(body)] { virtual_time_ = body(virtual_time_); });
}

void CpuStream::do_copy_async(CopyDirection direction, std::byte* destination, const Access& access) {
  const MemoryRange source = access.reads.front();
  if (direction != CopyDirection::to_host && runtime_.copy_fails())
    fail(ErrorCode::device, "copy '{}' of {} bytes on stream '{}' was refused", access.name, source.size_bytes, name());
  enqueue_work(access, source.size_bytes,
               [destination, source] { std::memcpy(destination, source.begin, source.size_bytes); });
}

void CpuStream::do_fill_async(std::byte* destination, std::byte value, const Access& access) {
  const std::size_t size_bytes = access.writes.front().size_bytes;
  enqueue_work(access, size_bytes,
               [destination, value, size_bytes] { std::memset(destination, std::to_integer<int>(value), size_bytes); });
}

void CpuStream::do_run_on_host_async(const Access& access, std::function<void()> work) {
  std::size_t written_bytes = 0;
  for (const MemoryRange& range : access.writes) written_bytes += range.size_bytes;
  enqueue_work(access, written_bytes, std::move(work));
}

void CpuStream::do_record(Event& event) {
  enqueue([this, &point = static_cast<CpuEvent&>(event).renew()] { point.reach(now()); });
}

bool CpuStream::do_wait(Event& event) {
  const Point* point = static_cast<CpuEvent&>(event).point();
  if (point == nullptr) return true;
  if (runtime_.drops_wait(name(), event.name())) return false;
  enqueue([this, point] { virtual_time_ = std::max(virtual_time_, point->wait()); });
  return true;
}

void CpuStream::do_synchronize() {
  worker_.drain();
  runtime_.host_waited_until(virtual_time_);
  if (error_) throw *std::exchange(error_, std::nullopt);
}

void CpuStream::enqueue(std::function<void()> task) {
  worker_.push([this, launched = runtime_.host_time(), task = std::move(task)] {
    virtual_time_ = std::max(virtual_time_, launched);
    task();
  });
}

/// Work behind an error is skipped: what it would read was never made.
void CpuStream::run(const Work& work) noexcept {
  if (error_) return;
  try {
    runtime_.delay(name(), work.name);
    virtual_time_ += runtime_.virtual_cost(name(), work.name, work.cost_bytes);
    show_to_thread_sanitizer(work.reads, work.writes);
    work.body();
  } catch (const Error& error) {
    error_ = error;
  } catch (const std::exception& error) {
    error_.emplace(ErrorCode::device, fmt::format("'{}' on stream '{}' failed: {}", work.name, name(), error.what()));
  } catch (...) {
    error_.emplace(ErrorCode::device, fmt::format("'{}' on stream '{}' failed", work.name, name()));
  }
}

nanoseconds CpuStream::now() const {
  return runtime_.has_virtual_time() ? virtual_time_ : std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace

std::unique_ptr<Stream> make_stream(Device& device, CpuRuntime& runtime, std::string name) {
  return std::make_unique<CpuStream>(device, runtime, std::move(name));
}

namespace {

CpuStream& cpu_stream_for(const Access& access, Stream& stream) {
  expects(stream.device().kind() == DeviceKind::cpu, "'{}' is CPU work, stream '{}' belongs to {}", access.name,
          stream.name(), stream.device().name());
  return static_cast<CpuStream&>(stream);
}

}  // namespace

void launch(Stream& cpu_stream, Access access, std::function<void()> work) {
  cpu_stream_for(access, cpu_stream).enqueue_work(std::move(access), 0, std::move(work));
}

void launch_meeting(Stream& cpu_stream, Access access, std::size_t cost_bytes,
                    std::function<nanoseconds(nanoseconds)> work) {
  cpu_stream_for(access, cpu_stream).enqueue_meeting(std::move(access), cost_bytes, std::move(work));
}

}  // namespace lamina::cpu
