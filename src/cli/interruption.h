#pragma once

namespace lamina {

/// From now on the first SIGINT or SIGTERM only asks the program to end, so that it can remove what it has half
/// written; the second one ends it at once.
void watch_for_interruption();

/// The signal that asked, or 0.
int interruption() noexcept;

/// Throws cancelled naming the signal where one asked.
void stop_if_interrupted();

}  // namespace lamina
