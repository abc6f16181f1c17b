#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "device/access.h"
#include "device/order_checker.h"

namespace lamina {

class Device;
class Event;

enum class CopyDirection { to_device, to_host, within_device };

/// An in-order queue of device work. All `_async` calls return before the work is done; one thread launches. The first
/// error of queued work is kept and thrown by the next `synchronize`; work queued behind it is skipped, though on a GPU
/// only that of `run_on_host_async` can be.
///
/// The public calls tell the order checker what they do and hand over to the backend.
class Stream {
 public:
  /// The backend has drained the queue before.
  virtual ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const noexcept { return device_; }
  const std::string& name() const noexcept { return name_; }

  /// Copies `size_bytes`. Host memory must stay valid until the copy is done, and should be pinned.
  /// Throws device where the backend refuses the copy. `label` names the copy in messages and traces.
  void copy_to_device_async(std::byte* device_destination, const std::byte* host_source, std::size_t size_bytes,
                            std::string_view label);
  void copy_to_host_async(std::byte* host_destination, const std::byte* device_source, std::size_t size_bytes,
                          std::string_view label);
  /// Copies between places of the device that do not overlap. Throws as `copy_to_device_async` does.
  void copy_within_device_async(std::byte* destination, const std::byte* source, std::size_t size_bytes,
                                std::string_view label);
  /// Sets every byte.
  void fill_async(std::byte* device_destination, std::size_t size_bytes, std::byte value, std::string_view label);

  /// Enqueues work of the host, in the order of the stream: `work` runs on a thread that the backend provides, and
  /// makes what `access` says of it. It must not call the device, and may take long: streams that carry such work carry
  /// no other, since a GPU's own queue would stand still meanwhile. An exception of `work` becomes the stream's error.
  void run_on_host_async(const Access& access, std::function<void()> work);

  /// Announces an operation that a backend of `ops/` is about to enqueue on this stream.
  void announce(const Access& access) { order_.access(lane_, access); }

  void record(Event& event);
  /// `event` is of the same device.
  void wait(Event& event);

  /// Blocks the host until all work enqueued so far is done; throws the first error of that work.
  void synchronize();

 protected:
  Stream(Device& device, std::string name);

 private:
  void copy_async(CopyDirection direction, std::byte* destination, const std::byte* source, std::size_t size_bytes,
                  std::string_view label);

  /// The one range of `access.reads` is copied to the one of `access.writes`; neither is empty.
  virtual void do_copy_async(CopyDirection direction, std::byte* destination, const Access& access) = 0;
  /// The one range of `access.writes` is filled; it is not empty.
  virtual void do_fill_async(std::byte* destination, std::byte value, const Access& access) = 0;
  virtual void do_run_on_host_async(const Access& access, std::function<void()> work) = 0;
  virtual void do_record(Event& event) = 0;
  /// False where a test double leaves the wait out; then the order checker must not learn of it either.
  virtual bool do_wait(Event& event) = 0;
  virtual void do_synchronize() = 0;

  Device& device_;
  OrderChecker& order_;
  OrderChecker::Lane lane_;
  std::string name_;
};

}  // namespace lamina
