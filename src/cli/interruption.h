#pragma once

namespace lamina {

/// From now on the first SIGINT, SIGTERM or SIGHUP only asks the program to end, so that it can remove what it has half
/// written; one that comes more than a second later ends it at once. Writes that SIGPIPE or SIGXFSZ would end the
/// program for fail instead.
void watch_for_interruption();

/// The signal that asked, or 0.
int interruption() noexcept;

/// Throws cancelled naming the signal where one asked.
void stop_if_interrupted();

}  // namespace lamina
