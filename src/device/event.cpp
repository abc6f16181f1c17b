#include "device/event.h"

namespace lamina {

void Event::synchronize() {
  if (do_synchronize() && order_ != nullptr) order_->join(OrderChecker::kHost, clock_);
}

}  // namespace lamina
