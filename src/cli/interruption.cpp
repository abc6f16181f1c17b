#include "cli/interruption.h"

#include <signal.h>
#include <time.h>

#include <cstring>

#include "base/error.h"

namespace lamina {
namespace {

/// One request to end may arrive twice: `timeout` signals the program and then its group, terminals do likewise.
constexpr time_t kRepeatSeconds = 1;

volatile sig_atomic_t received_signal = 0;
volatile time_t forget_repeats_until = 0;

time_t monotonic_seconds() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

void note_signal(int signal) {
  if (received_signal == 0) {
    received_signal = signal;
    forget_repeats_until = monotonic_seconds() + kRepeatSeconds;
  } else if (monotonic_seconds() > forget_repeats_until) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
}

/// `nohup` ignores SIGHUP for the programs it starts.
bool is_ignored(int signal) noexcept {
  struct sigaction old {};
  return ::sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_IGN;
}

}  // namespace

void watch_for_interruption() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  if (!is_ignored(SIGHUP)) ::sigaction(SIGHUP, &action, nullptr);
  // A reader that went away and a file that may not grow become errors of the write.
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_IGN);
}

int interruption() noexcept {
  return received_signal;
}

void stop_if_interrupted() {
  if (received_signal != 0) fail(ErrorCode::cancelled, "stopped by {}", ::strsignal(received_signal));
}

}  // namespace lamina
