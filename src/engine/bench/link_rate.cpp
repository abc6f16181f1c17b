#include "engine/bench/link_rate.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <thread>

#include "device/event.h"
#include "device/stream.h"

namespace lamina {
namespace {

constexpr std::size_t kLinkCopies = 11;

}  // namespace

double measure_link(Device& device, std::size_t size_bytes, const std::function<void()>& start) {
  const PinnedBuffer source = device.allocate_pinned(size_bytes, "staging");
  const DeviceBuffer destination = device.allocate(size_bytes, "link");
  const std::unique_ptr<Stream> stream = device.create_stream("copy");
  const std::unique_ptr<Event> begin = device.create_event("begin");
  const std::unique_ptr<Event> end = device.create_event("end");
  if (start) start();
  std::vector<double> rates;
  for (std::size_t copy = 0; copy < kLinkCopies; ++copy) {
    stream->record(*begin);
    stream->copy_to_device_async(destination.data(), source.data(), size_bytes, "link");
    stream->record(*end);
    end->synchronize();
    const double seconds = std::chrono::duration<double>(end->time() - begin->time()).count();
    rates.push_back(static_cast<double>(size_bytes) / seconds);
  }
  std::ranges::nth_element(rates, rates.begin() + kLinkCopies / 2);
  return rates[kLinkCopies / 2];
}

std::vector<double> measure_links(const std::function<std::unique_ptr<Device>(std::size_t rank)>& create_device,
                                  std::size_t ranks, std::size_t size_bytes) {
  std::vector<double> rates(ranks);
  std::vector<std::exception_ptr> failures(ranks);
  std::barrier start(static_cast<std::ptrdiff_t>(ranks));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      bool waited = false;
      try {
        const std::unique_ptr<Device> device = create_device(rank);
        rates[rank] = measure_link(*device, size_bytes, [&] {
          waited = true;
          start.arrive_and_wait();
        });
      } catch (...) {
        failures[rank] = std::current_exception();
        if (!waited) start.arrive_and_drop();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return rates;
}

}  // namespace lamina
