#include "lamina/engine.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/host_memory_budget.h"
#include "base/log.h"
#include "engine/config/options.h"
#include "engine/config/select_device.h"
#include "engine/generator.h"
#include "engine/serving/request.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina {

using detail::Request;

/// One thread that serves requests in their order.
class Engine::Impl {
 public:
  explicit Impl(const EngineConfig& config) {
    if (config.parallel.sizes != ParallelSizes{})
      fail(ErrorCode::not_implemented, "the library serves one rank; `lamina generate` and `bench` run several");
    const OffloadOptions options = offload_options(config);
    const DeviceChoice device = choose_device(config.device);
    std::unique_ptr<Pipeline> pipeline =
        open_pipeline(ModelFolder::open(config.model), pipeline_options(config, device.kind));
    notes_ = configuration_notes(config, pipeline->parts());
    generator_.emplace(create_device(device, config.device_memory_bytes, process_host_memory(config.host_memory_bytes)),
                       std::move(pipeline), options);
    worker_ = std::thread([this] { work(); });
  }

  ~Impl() { drain(std::chrono::milliseconds(0)); }

  std::shared_ptr<Request> submit(GenerateRequest request, Observer observer) {
    const std::lock_guard lock(mutex_);
    if (!refusal_.empty()) fail(ErrorCode::unavailable, "the engine takes no requests: {}", refusal_);
    auto pending = std::make_shared<Request>(++last_id_, std::move(request), std::move(observer));
    pending->set_position(queue_.size());
    queue_.push_back(pending);
    changed_.notify_all();
    return pending;
  }

  EngineSnapshot snapshot() const {
    const std::lock_guard lock(mutex_);
    EngineSnapshot snapshot = counts_;
    if (running_ && !running_->is_over()) snapshot.requests.push_back({running_->id(), running_->status()});
    for (const auto& request : queue_) snapshot.requests.push_back({request->id(), request->status()});
    return snapshot;
  }

  Health health() const {
    const std::lock_guard lock(mutex_);
    return {refusal_.empty(), refusal_};
  }

  bool drain(std::chrono::milliseconds deadline) {
    bool all = true;
    {
      std::unique_lock lock(mutex_);
      if (refusal_.empty()) refusal_ = "it is shutting down";
      stopping_ = true;
      changed_.notify_all();
      all = changed_.wait_for(lock, deadline, [&] { return queue_.empty() && !running_; });
      for (const auto& request : queue_) request->cancel();
      if (running_) running_->cancel();
    }
    const std::lock_guard joining(join_mutex_);
    if (worker_.joinable()) worker_.join();
    return all;
  }

  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      running_ = std::move(queue_.front());
      queue_.pop_front();
      for (std::size_t i = 0; i < queue_.size(); ++i) queue_[i]->set_position(i);
      lock.unlock();
      run(*running_);
      lock.lock();
      count(*std::exchange(running_, nullptr));
      changed_.notify_all();
    }
  }

  void run(Request& request) {
    if (request.is_over()) return;  // a fault ended it while it waited
    request.set_progress({.passes = 1}, 0);
    try {
      check_wanted(request);
      for (std::size_t i = 0; i < request.status().pictures_asked; ++i) {
        GenerateRequest one = request.request();
        one.seed += i;
        GenerateResult result = generator_->generate(one, [&](const Progress& progress) { tell(request, progress); });
        if (request.observer().finished) request.observer().finished(i, result);
        request.add_result(i, std::move(result));
      }
    } catch (const Error& error) {
      request.fail(error);
      if (error.code() == ErrorCode::device) stop(error.message());
    } catch (const std::exception& error) {
      request.fail(Error(ErrorCode::internal, error.what()));
    }
  }

  static void check_wanted(const Request& request) {
    if (request.is_cancelled()) fail(ErrorCode::cancelled, "the request was cancelled");
  }

  static void tell(Request& request, const Progress& progress) {
    check_wanted(request);
    request.set_progress(progress, progress.seconds_per_pass * static_cast<double>(progress.passes - progress.pass));
    if (request.observer().progress) request.observer().progress(progress);
  }

  void stop(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    refusal_ = reason;
    stopping_ = true;
    for (const auto& request : queue_) request->fail(Error(ErrorCode::device, reason));
  }

  void count(const Request& request) {
    const RequestState state = request.status().state;
    (state == RequestState::finished ? counts_.finished
     : state == RequestState::failed ? counts_.failed
                                     : counts_.cancelled)++;
  }

  std::vector<std::string> notes_;
  std::optional<Generator> generator_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Request>> queue_;
  std::shared_ptr<Request> running_;
  std::uint64_t last_id_ = 0;
  EngineSnapshot counts_;
  std::string refusal_;
  bool stopping_ = false;
  std::mutex join_mutex_;
  std::thread worker_;
};

Engine::Engine(const EngineConfig& config) : impl_(std::make_unique<Impl>(config)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Ticket Engine::submit(GenerateRequest request, Observer observer) {
  return Ticket(impl_->submit(std::move(request), std::move(observer)));
}

GenerateResult Engine::generate(GenerateRequest request, Observer observer) {
  return submit(std::move(request), std::move(observer)).result();
}

EngineSnapshot Engine::snapshot() const {
  return impl_->snapshot();
}

Health Engine::health() const {
  return impl_->health();
}

bool Engine::drain(std::chrono::milliseconds deadline) {
  return impl_->drain(deadline);
}

const std::vector<std::string>& Engine::notes() const {
  return impl_->notes();
}

const char* version() noexcept {
  return LAMINA_VERSION;
}

}  // namespace lamina
