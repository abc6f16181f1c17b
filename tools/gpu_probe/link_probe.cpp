// Measures the link between host and device, what registering host memory costs and what the system counts as locked,
// and how fast device memory copies itself. A measuring program, not product code.
//
//   link_probe FOLDER...      folders in which a file is written, mapped read-only, registered and copied from

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "gpu_probe/check.h"
#include "gpu_probe/gpu.h"
#include "gpu_probe/kernels.h"
#include "gpu_probe/pinned.h"

namespace lamina::probe {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kDouble = 872'416'256;
constexpr std::size_t kSingle = 436'208'128;

class LinkProbe {
 public:
  LinkProbe() : stream_(create_stream()), device_(allocate(kDouble)) {}

  void run(const std::vector<std::filesystem::path>& folders) {
    rates_of_pinned();
    registrations(folders);
    fmt::print("\n## Copies\n\n| copy | bytes | ms | GB/s | ratio to the first |\n|---|---|---|---|---|\n");
    for (const Rate& rate : rates_)
      fmt::print("| {} | {} | {:.3f} | {:.2f} | {:.3f} |\n", rate.what, rate.size_bytes, rate.ms,
                 gb_per_s(rate.size_bytes, rate.ms),
                 gb_per_s(rates_[0].size_bytes, rates_[0].ms) / gb_per_s(rate.size_bytes, rate.ms));
    device_memory();
    copies_at_once();
  }

 private:
  struct Rate {
    std::string what;
    std::size_t size_bytes;
    double ms;
  };

  void to_device(std::string what, const std::byte* host, std::size_t size_bytes, std::size_t piece_bytes) {
    const double ms = time_ms(stream_.get(), 11, 1, [&](int) {
      for (std::size_t at = 0; at < size_bytes; at += piece_bytes)
        check(cudaMemcpyAsync(device_.get() + at, host + at, std::min(piece_bytes, size_bytes - at),
                              cudaMemcpyHostToDevice, stream_.get()));
    });
    rates_.push_back({std::move(what), size_bytes, ms});
  }

  void rates_of_pinned() {
    const Mapping host = Mapping::anonymous(kDouble, Pages::touched);
    const Registration registration(host.data(), host.size_bytes());
    to_device("H2D, a double block, registered mapping", host.data(), kDouble, kDouble);
    to_device("H2D, a single block", host.data(), kSingle, kSingle);
    to_device("H2D, 64 MiB + 13 B", host.data(), 64 * kMiB + 13, kDouble);
    to_device("H2D, 1 MiB + 1 B", host.data(), kMiB + 1, kDouble);
    to_device("H2D, single block from host address + 1", host.data() + 1, kSingle, kDouble);
    to_device("H2D, single block from host address + 8", host.data() + 8, kSingle, kDouble);
    for (const std::size_t piece : {1, 4, 16, 64})
      to_device(fmt::format("H2D, double block in pieces of {} MiB", piece), host.data(), kDouble, piece * kMiB);
    const double ms = time_ms(stream_.get(), 11, 1, [&](int) {
      check(cudaMemcpyAsync(host.data(), device_.get(), kDouble, cudaMemcpyDeviceToHost, stream_.get()));
    });
    rates_.push_back({"D2H, double block", kDouble, ms});
    rate_of_cuda_host_memory();
    const Mapping pageable = Mapping::anonymous(kDouble, Pages::touched);
    to_device("H2D, double block, not registered", pageable.data(), kDouble, kDouble);
  }

  void rate_of_cuda_host_memory() {
    void* host = nullptr;
    check(cudaMallocHost(&host, kDouble));
    to_device("H2D, double block, cudaMallocHost", static_cast<const std::byte*>(host), kDouble, kDouble);
    check(cudaFreeHost(host));
  }

  void registrations(const std::vector<std::filesystem::path>& folders) {
    fmt::print("\n## Registration\n\nLocked and pinned are differences to the state before. A page is 4096 B.\n\n");
    fmt::print(
        "| memory | bytes | map and touch ms | register ms | unregister ms | VmLck | VmPin | pinned by drivers | "
        "left after unregister and unmap |\n|---|---|---|---|---|---|---|---|---|\n");
    // Odd on purpose: what is booked must be what is locked.
    const std::size_t odd = kSingle + 4097;
    const auto anonymous = [&](Pages pages) { return [=] { return Mapping::anonymous(odd, pages); }; };
    registration("anonymous, untouched", anonymous(Pages::untouched), 0);
    registration("anonymous, touched by all cores", anonymous(Pages::touched), 0);
    registration("anonymous, huge pages", anonymous(Pages::huge), 0);
    registration(
        "anonymous, double block, touched", [] { return Mapping::anonymous(kDouble, Pages::touched); }, 0);
    int supported = 0;
    check(cudaDeviceGetAttribute(&supported, cudaDevAttrHostRegisterReadOnlySupported, 0));
    for (const std::filesystem::path& folder : folders) {
      const std::filesystem::path file = folder / "lamina_gpu_probe.bin";
      write_file(file, odd);
      const auto shared = [&] { return Mapping::of_file(file, Sharing::shared); };
      const auto copied = [&] { return Mapping::of_file(file, Sharing::copied_on_write); };
      const std::string name = "file in " + folder.string();
      registration(name + ", shared, read-only flag", shared, cudaHostRegisterReadOnly);
      registration(name + ", private, read-only flag", copied, cudaHostRegisterReadOnly);
      registration(name + ", shared, no flag", shared, 0);
      std::filesystem::remove(file);
    }
    fmt::print("\nThe device {} read-only registration.\n", supported != 0 ? "supports" : "does not support");
    parts_of_a_page();
  }

  /// Failure is a result here: a driver or a file system may refuse.
  void registration(const std::string& what, const std::function<Mapping()>& map, unsigned flags) {
    const LockedMemory before = LockedMemory::now();
    LockedMemory held;
    std::size_t size_bytes = 0;
    double register_ms = 0;
    double unregister_ms = 0;
    double map_ms = 0;
    try {
      std::vector<Mapping> mapping;
      map_ms = host_ms([&] { mapping.push_back(map()); });
      size_bytes = mapping[0].size_bytes();
      std::vector<Registration> registered;
      register_ms = host_ms([&] { registered.emplace_back(mapping[0].data(), size_bytes, flags); });
      held = LockedMemory::now().since(before);
      to_device("H2D, " + what, mapping[0].data(), size_bytes, size_bytes);
      unregister_ms = host_ms([&] { registered.clear(); });
    } catch (const Error& error) {
      check_no_sticky_error();
      fmt::print("| {} | {} | refused: {} ||||||\n", what, size_bytes, error.what());
      return;
    }
    const LockedMemory left = LockedMemory::now().since(before);
    fmt::print("| {} | {} | {:.0f} | {:.0f} | {:.0f} | {} | {} | {} | {} / {} / {} |\n", what, size_bytes, map_ms,
               register_ms, unregister_ms, held.vm_lck_bytes, held.vm_pin_bytes, held.pinned_by_drivers,
               left.vm_lck_bytes, left.vm_pin_bytes, left.pinned_by_drivers);
  }

  /// Tensors of a checkpoint share pages: may two neighbours be registered each for itself?
  void parts_of_a_page() {
    const Mapping host = Mapping::anonymous(4 * kMiB, Pages::touched);
    const std::size_t half = 2 * kMiB + 24;
    std::string second = "registered";
    const Registration first(host.data() + 24, half - 24);
    try {
      const Registration neighbour(host.data() + half, host.size_bytes() - half);
    } catch (const Error& error) {
      check_no_sticky_error();
      second = error.message();
    }
    fmt::print(
        "\nTwo ranges that meet inside a page, the first from its 24th byte: the first registered, the second: "
        "{}.\n",
        second);
  }

  /// Clears the error that the refused call left, and proves that the device still works.
  void check_no_sticky_error() {
    const cudaError_t left = cudaGetLastError();
    check(cudaStreamSynchronize(stream_.get()));
    fmt::print(stderr, "after a refused registration the last error was '{}', cleared\n", cudaGetErrorString(left));
  }

  static void write_file(const std::filesystem::path& file, std::size_t size_bytes) {
    std::ofstream out(file, std::ios::binary);
    const std::vector<char> piece(kMiB, 'x');
    for (std::size_t at = 0; at < size_bytes; at += kMiB)
      out.write(piece.data(), static_cast<std::streamsize>(std::min(kMiB, size_bytes - at)));
    if (!out.flush()) fail(ErrorCode::unavailable, "{} could not be written", file.string());
  }

  void device_memory() {
    fmt::print(
        "\n## Device memory\n\nBytes are those read plus those written.\n\n"
        "| copy | bytes | ms | GB/s |\n|---|---|---|---|\n");
    for (const std::size_t half : {12'582'912UL, 37'748'736UL, 138'412'032UL, 4UL << 30}) {
      const DeviceMemory from = allocate(half);
      const DeviceMemory to = allocate(half);
      check(fill_random_async(from.get(), half, 1.0F, 3, stream_.get()));
      const int calls = half > kDouble ? 3 : 20;
      const auto print = [&](const char* what, std::size_t size_bytes, double ms) {
        fmt::print("| {} | {} | {:.4f} | {:.0f} |\n", what, size_bytes, ms, gb_per_s(size_bytes, ms));
      };
      print("cudaMemcpyAsync", 2 * half, time_ms(stream_.get(), 7, calls, [&](int) {
              check(cudaMemcpyAsync(to.get(), from.get(), half, cudaMemcpyDeviceToDevice, stream_.get()));
            }));
      print("kernel, 16 B a thread and turn", 2 * half, time_ms(stream_.get(), 7, calls, [&](int) {
              check(copy_by_kernel_async(to.get(), from.get(), half, stream_.get()));
            }));
    }
  }

  /// Copies over the link beside a kernel that takes all of the device's memory bandwidth.
  void copies_at_once() {
    constexpr int kKernels = 30;  // these last longer than one copy over the link, three of those longer than these
    constexpr std::size_t kHalf = std::size_t{2} << 30;
    const Mapping host = Mapping::anonymous(kDouble, Pages::touched);
    const Registration registration(host.data(), host.size_bytes());
    const DeviceMemory from = allocate(kHalf);
    const DeviceMemory to = allocate(kHalf);
    check(fill_random_async(from.get(), kHalf, 1.0F, 4, stream_.get()));
    const Stream kernels = create_stream();
    const auto copy = [&] {
      check(cudaMemcpyAsync(device_.get(), host.data(), kDouble, cudaMemcpyHostToDevice, stream_.get()));
    };
    const auto kernel = [&] {
      for (int i = 0; i < kKernels; ++i) check(copy_by_kernel_async(to.get(), from.get(), kHalf, kernels.get()));
    };
    const auto idle = [] {};
    fmt::print(
        "\n## H2D beside a kernel that copies device memory\n\n| timed | alone ms | beside the other ms | ratio |\n"
        "|---|---|---|---|\n");
    const auto print = [](const char* what, double alone, double beside) {
      fmt::print("| {} | {:.3f} | {:.3f} | {:.3f} |\n", what, alone, beside, beside / alone);
    };
    print("H2D, double block", beside(stream_, copy, idle), beside(stream_, copy, kernel));
    print("30 kernels, 2 GiB each", beside(kernels, kernel, idle), beside(kernels, kernel, [&] {
            for (int i = 0; i < 3; ++i) copy();
          }));
  }

  /// Time of `timed`, which is enqueued on `stream` behind the start of `other`.
  template <typename Timed, typename Other>
  double beside(const Stream& stream, Timed timed, Other other) {
    const Event begin = create_event(Timing::on);
    const Event end = create_event(Timing::on);
    std::vector<double> times;
    for (int repeat = 0; repeat < 6; ++repeat) {
      other();
      check(cudaEventRecord(begin.get(), stream.get()));
      timed();
      check(cudaEventRecord(end.get(), stream.get()));
      check(cudaDeviceSynchronize());
      if (repeat > 0) times.push_back(elapsed_ms(begin, end));
    }
    return median(std::move(times));
  }

  Stream stream_;
  DeviceMemory device_;
  std::vector<Rate> rates_;
};

}  // namespace
}  // namespace lamina::probe

int main(int argc, char** argv) {
  try {
    lamina::probe::LinkProbe().run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "link_probe: {}\n", error.what());
    return 1;
  }
}
