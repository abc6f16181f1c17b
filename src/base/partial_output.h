#pragma once

#include <filesystem>

#include "base/file.h"

namespace lamina {

// Outputs that are not finished yet lie beside their destination, locked by whoever writes them. What a killed process
// left is no longer locked, so the next one that writes there removes it.

/// Locks a partial output that was just made, `file` being open on it. False where another process took it for one left
/// behind, and removed it: make another one. Where the file system knows no locks, nothing is ever removed.
bool lock_partial(const FileDescriptor& file, const std::filesystem::path& path);

/// Removes the partial outputs in `folder` that nobody writes any more, once a process and folder; logs each.
void reclaim_partials(const std::filesystem::path& folder);

}  // namespace lamina
