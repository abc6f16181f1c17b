#pragma once

#include <cstddef>

#include "ops/op_context.h"

namespace lamina {

/// One sample's part in a traversal. The engine runs `begin`, then `run_unit` for every unit of the stack in order,
/// while the unit's parameters are bound, then `finish`; other samples of the pass run in between. Calls enqueue work
/// and return; the member's memory was reserved before.
class PassMember {
 public:
  virtual ~PassMember() = default;

  virtual void begin(ops::OpContext& context) = 0;
  virtual void run_unit(std::size_t unit, ops::OpContext& context) = 0;
  virtual void finish(ops::OpContext& context) = 0;
};

}  // namespace lamina
