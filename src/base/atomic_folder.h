#pragma once

#include <cstddef>
#include <filesystem>

#include "base/file.h"

namespace lamina {

/// A folder that appears whole or not at all: filled beside its destination under a name that ends in ".partial",
/// renamed onto it by `commit`, removed with all its contents on destruction without one. What a killed
/// process left is removed by the next one that writes beside it. One thread at a time.
class AtomicFolder {
 public:
  /// Creates the partial folder, which proves that the place is writable. The destination may be an empty folder.
  /// Throws invalid_argument where something else stands there, unavailable naming the path and the reason (no such
  /// parent folder, no permission).
  explicit AtomicFolder(const std::filesystem::path& destination);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// Where to put the contents until `commit`.
  const std::filesystem::path& path() const noexcept { return partial_; }
  /// Where they will stand, as it was given.
  const std::filesystem::path& destination() const noexcept { return destination_; }

  /// Bytes that the file system of the folder has left.
  std::size_t available_bytes() const;
  /// Puts the folder in its place. The last call on this object.
  void commit();

 private:
  std::filesystem::path destination_;
  std::filesystem::path target_;   ///< without a trailing slash
  FileDescriptor lock_{-1};        ///< on the folder that is written, see partial_output.h
  std::filesystem::path partial_;  ///< empty once committed
};

}  // namespace lamina
