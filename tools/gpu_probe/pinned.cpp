#include "gpu_probe/pinned.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_probe/check.h"
#include "gpu_probe/gpu.h"

namespace lamina::probe {
namespace {

constexpr std::size_t kPageBytes = 4096;

std::byte* map_pages(std::size_t size_bytes, int protection, int flags, int file) {
  void* data = ::mmap(nullptr, size_bytes, protection, flags, file, 0);
  if (data == MAP_FAILED) fail(ErrorCode::out_of_host_memory, "mmap of {} bytes: {}", size_bytes, std::strerror(errno));
  return static_cast<std::byte*>(data);
}

void touch_pages(std::byte* data, std::size_t size_bytes) {
  const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t share = size_bytes / threads / kPageBytes * kPageBytes + kPageBytes;
  std::vector<std::jthread> team;
  for (std::size_t begin = 0; begin < size_bytes; begin += share)
    team.emplace_back([=] {
      for (std::size_t i = begin; i < std::min(begin + share, size_bytes); i += kPageBytes) data[i] = std::byte{1};
    });
}

/// The counters of /proc/vmstat are kept per processor and summed up now and then; reading this sums them up at once.
void refresh_counters() {
  std::string ignored;
  std::ifstream("/proc/sys/vm/stat_refresh") >> ignored;
}

/// The number behind `name`, which begins a line; 0 where there is none.
std::int64_t read_counter(const char* file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string word; lines >> word;) {
    std::int64_t value = 0;
    if (word == name && lines >> value) return value;
  }
  return 0;
}

}  // namespace

Mapping Mapping::anonymous(std::size_t size_bytes, Pages pages) {
  Mapping mapping(map_pages(size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1), size_bytes);
  if (pages == Pages::huge && ::madvise(mapping.data(), size_bytes, MADV_HUGEPAGE) != 0)
    fail(ErrorCode::unavailable, "no huge pages: {}", std::strerror(errno));
  if (pages != Pages::untouched) touch_pages(mapping.data(), size_bytes);
  return mapping;
}

Mapping Mapping::of_file(const std::filesystem::path& file, Sharing sharing) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(ErrorCode::not_found, "{}: {}", file.string(), std::strerror(errno));
  const std::size_t size_bytes = std::filesystem::file_size(file);
  void* data =
      ::mmap(nullptr, size_bytes, PROT_READ, sharing == Sharing::shared ? MAP_SHARED : MAP_PRIVATE, descriptor, 0);
  const int error = errno;
  ::close(descriptor);
  if (data == MAP_FAILED) fail(ErrorCode::unavailable, "mmap of {}: {}", file.string(), std::strerror(error));
  return {static_cast<std::byte*>(data), size_bytes};
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(other.size_bytes_) {}

Mapping::~Mapping() {
  if (data_ != nullptr && ::munmap(data_, size_bytes_) != 0) std::perror("munmap");
}

Registration::Registration(std::byte* data, std::size_t size_bytes, unsigned flags) : data_(data) {
  check(cudaHostRegister(data, size_bytes, cudaHostRegisterPortable | flags));
}

Registration::Registration(Registration&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}

Registration::~Registration() {
  if (data_ != nullptr) warn(cudaHostUnregister(data_), "cudaHostUnregister");
}

LockedMemory LockedMemory::now() {
  refresh_counters();
  return {
      read_counter("/proc/self/status", "VmLck:") * 1024, read_counter("/proc/self/status", "VmPin:") * 1024,
      (read_counter("/proc/vmstat", "nr_foll_pin_acquired") - read_counter("/proc/vmstat", "nr_foll_pin_released")) *
          static_cast<std::int64_t>(kPageBytes)};
}

LockedMemory LockedMemory::since(const LockedMemory& start) const {
  return {vm_lck_bytes - start.vm_lck_bytes, vm_pin_bytes - start.vm_pin_bytes,
          pinned_by_drivers - start.pinned_by_drivers};
}

}  // namespace lamina::probe
