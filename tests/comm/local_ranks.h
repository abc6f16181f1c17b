#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "comm/local/local_communicator.h"
#include "device/cpu/cpu_device.h"
#include "device/device.h"
#include "device/stream.h"

namespace lamina::test {

/// What one thread of a group has.
struct LocalRank {
  std::size_t rank;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
};

/// Runs `body` on a thread for each rank of a group, and gives back the error that ended each.
template <typename Body>
std::vector<std::optional<Error>> run_ranks(std::size_t ranks, Body body,
                                            std::optional<std::chrono::milliseconds> time_limit = std::nullopt,
                                            const std::function<CpuDeviceOptions(std::size_t rank)>& options = {}) {
  // Made by whoever logs first, in a library that ThreadSanitizer does not see into: here, ahead of the threads.
  spdlog::default_logger_raw();
  std::vector<std::unique_ptr<Communicator>> group = create_local_group("test", ranks, time_limit);
  std::vector<std::optional<Error>> errors(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      LocalRank mine{rank, std::move(group[rank]), create_cpu_device(options ? options(rank) : CpuDeviceOptions{}), {}};
      mine.stream = mine.device->create_stream("comm");
      try {
        body(mine);
        mine.stream->synchronize();
      } catch (const Error& error) {
        errors[rank] = error;
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

template <typename T>
DeviceBuffer upload(LocalRank& rank, const std::vector<T>& values) {
  DeviceBuffer buffer = rank.device->allocate(values.size() * sizeof(T), "test");
  PinnedBuffer staging = rank.device->allocate_pinned(buffer.size_bytes(), "test");
  std::memcpy(staging.data(), values.data(), buffer.size_bytes());
  rank.stream->copy_to_device_async(buffer.data(), staging.data(), buffer.size_bytes(), "upload");
  rank.stream->synchronize();
  return buffer;
}

template <typename T>
std::vector<T> download(LocalRank& rank, const DeviceBuffer& buffer) {
  PinnedBuffer staging = rank.device->allocate_pinned(buffer.size_bytes(), "test");
  rank.stream->copy_to_host_async(staging.data(), buffer.data(), buffer.size_bytes(), "download");
  rank.stream->synchronize();
  std::vector<T> values(buffer.size_bytes() / sizeof(T));
  std::memcpy(values.data(), staging.data(), buffer.size_bytes());
  return values;
}

}  // namespace lamina::test
