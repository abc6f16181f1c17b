#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "device/cuda/cuda_native.h"

/// Handles and plans of CUDA's libraries. They belong to a device and are shared by all threads of the process.
namespace lamina::ops::cuda {

/// The T of the device that is current on the calling thread, made where it is asked for the first time. Never
/// destroyed: when static objects die, the libraries and the driver may be gone. Thread safe.
template <typename T>
T& of_current_device() {
  struct PerDevice {
    std::mutex mutex;
    std::map<int, T> objects;
  };
  static PerDevice& all = *std::make_unique<PerDevice>().release();
  int device = 0;
  lamina::cuda::check(cudaGetDevice(&device));
  const std::lock_guard lock(all.mutex);
  return all.objects[device];
}

/// Plans by shape, strides and dtypes: making one takes milliseconds to seconds, so planning contexts make them too,
/// and a run finds them. Thread safe.
template <typename Plan>
class PlanCache {
 public:
  using Key = std::vector<std::int64_t>;

  /// The plan of `key`, on the current device, from `make` where it is asked for the first time.
  template <typename Make>
  static std::shared_ptr<const Plan> get(const Key& key, Make make) {
    return of_current_device<PlanCache>().find_or_make(key, make);
  }

 private:
  /// Far above the distinct shapes of one picture, so that dropping all of them at once stays rare.
  static constexpr std::size_t kCapacity = 1024;

  template <typename Make>
  std::shared_ptr<const Plan> find_or_make(const Key& key, Make make) {
    const std::lock_guard lock(mutex_);
    if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
    if (plans_.size() >= kCapacity) {
      lamina::cuda::check(cudaDeviceSynchronize());  // a plan owns the code of kernels that may still run
      plans_.clear();
    }
    return plans_.emplace(key, make()).first->second;
  }

  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Plan>> plans_;
};

}  // namespace lamina::ops::cuda
