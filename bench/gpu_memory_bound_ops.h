#pragma once

#include "gpu_ops_table.h"

namespace lamina::bench {

/// Norms, element-wise operations and copies, of a transformer and of a VAE.
void add_memory_bound(Table& table, Tensors& tensors);

}  // namespace lamina::bench
