#include "cli/interruption.h"

#include <signal.h>

#include <cstring>

#include "base/error.h"

namespace lamina {
namespace {

volatile sig_atomic_t received_signal = 0;

void note_signal(int signal) {
  received_signal = signal;
}

}  // namespace

void watch_for_interruption() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESETHAND;
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

int interruption() noexcept {
  return received_signal;
}

void stop_if_interrupted() {
  if (received_signal != 0) fail(ErrorCode::cancelled, "stopped by {}", ::strsignal(received_signal));
}

}  // namespace lamina
