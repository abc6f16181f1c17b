#include "device/cuda/cuda_device.h"
#include "op_test.h"

namespace lamina::testing {

std::vector<Backend> backends() {
  const auto create = [] { return create_cuda_device(); };
  return {{"cuda_f32", create, DType::f32, 1e-5}, {"cuda_bf16", create, DType::bf16, 2e-2}};
}

}  // namespace lamina::testing
