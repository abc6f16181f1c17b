#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/gpu.h"
#include "device/cuda/handles.h"
#include "device/cuda/host_work.h"
#include "device/cuda/stream_watch.h"
#include "device/stream.h"

namespace lamina::cuda {

/// A CUDA stream. No call but `synchronize` and the destructor waits for the device.
///
/// Work of the host runs on the driver's callback thread of the device, one piece at a time whichever stream it is of.
/// An error of it makes the stream skip the host's later work until the next `synchronize`; the GPU's own copies, fills
/// and kernels behind it cannot be taken back and run. An error of the GPU's own work loses the device: every later
/// call fails.
class CudaStream final : public Stream {
 public:
  CudaStream(Device& device, Gpu& gpu, std::string name);
  ~CudaStream() override;

  void add_watch(const std::shared_ptr<const StreamWatch>& watch);

  cudaStream_t handle() const noexcept { return handle_.get(); }
  Gpu& gpu() const noexcept { return gpu_; }

 private:
  void do_copy_async(CopyDirection direction, std::byte* destination, const Access& access) override;
  void do_fill_async(std::byte* destination, std::byte value, const Access& access) override;
  void do_run_on_host_async(const Access& access, std::function<void()> work) override;
  void do_record(Event& event) override;
  bool do_wait(Event& event) override;
  void do_synchronize() override;

  void check_enqueued(cudaError_t status, std::string_view work) const;

  Gpu& gpu_;
  HostWork host_work_;
  StreamHandle handle_;
  std::vector<std::weak_ptr<const StreamWatch>> watches_;
};

}  // namespace lamina::cuda
