#pragma once

namespace lamina {

/// Takes those of the descriptors 0 to 2 that the caller closed, so that no file that is opened later becomes the
/// standard output or error, and is spoiled by what is printed there. Writing to one that was closed still fails. First
/// thing in `main`.
void take_closed_standard_descriptors() noexcept;

}  // namespace lamina
