#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace lamina::probe {

enum class Pages { untouched, touched, huge };
enum class Sharing { shared, copied_on_write };

/// Pages of host memory, mapped for as long as the object lives. Move-only.
class Mapping {
 public:
  /// Anonymous. `touched`: every page is written by all cores first; `huge`: that, after asking for huge pages.
  static Mapping anonymous(std::size_t size_bytes, Pages pages);
  /// All of `file`, read-only.
  static Mapping of_file(const std::filesystem::path& file, Sharing sharing);

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping();

  std::byte* data() const noexcept { return data_; }
  std::size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  Mapping(std::byte* data, std::size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}

  std::byte* data_;
  std::size_t size_bytes_;
};

/// Registers exactly the given bytes with CUDA (portable, besides `flags`) for as long as the object lives.
class Registration {
 public:
  Registration(std::byte* data, std::size_t size_bytes, unsigned flags = 0);
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&&) = delete;
  ~Registration();

 private:
  std::byte* data_;
};

/// What the system counts as locked or pinned at this moment.
struct LockedMemory {
  std::int64_t vm_lck_bytes = 0;       ///< VmLck of /proc/self/status
  std::int64_t vm_pin_bytes = 0;       ///< VmPin of /proc/self/status
  std::int64_t pinned_by_drivers = 0;  ///< bytes; nr_foll_pin_acquired - nr_foll_pin_released of /proc/vmstat

  static LockedMemory now();
  LockedMemory since(const LockedMemory& start) const;
};

}  // namespace lamina::probe
