#include "device/cpu/cpu_device.h"
#include "op_test.h"

namespace lamina::testing {

std::vector<Backend> backends() {
  return {{"cpu", [] { return create_cpu_device(); }, DType::f32, 1e-5}};
}

}  // namespace lamina::testing
