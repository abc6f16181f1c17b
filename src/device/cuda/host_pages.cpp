#include "device/cuda/host_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include "base/bytes.h"

namespace lamina::cuda {
namespace {

/// A thread is worth its start where it touches so much.
constexpr std::size_t kShareBytes = 8 * kMiB;

void touch(std::byte* begin, std::byte* end, std::size_t page_bytes) {
  for (volatile std::byte* page = begin; page < end; page += page_bytes) *page = std::byte{0};
}

}  // namespace

void make_pages_present(std::byte* data, std::size_t size_bytes) {
  // A wish: a system without huge pages refuses it, and small ones do as well.
  static_cast<void>(::madvise(data, size_bytes, MADV_HUGEPAGE));
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t share = align_up(std::max(kShareBytes, size_bytes / cores + 1), page_bytes);
  std::vector<std::jthread> helpers;
  std::size_t begin = share;  // the first share is this thread's
  try {
    for (; begin < size_bytes; begin += share)
      helpers.emplace_back(touch, data + begin, data + std::min(begin + share, size_bytes), page_bytes);
  } catch (const std::system_error&) {  // no more threads: what is left is this thread's too
    touch(data + begin, data + size_bytes, page_bytes);
  }
  touch(data, data + std::min(share, size_bytes), page_bytes);
}

}  // namespace lamina::cuda
