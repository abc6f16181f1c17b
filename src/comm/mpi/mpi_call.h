#pragma once

#include <mpi.h>

#include <string_view>

namespace lamina::mpi {

/// Throws device naming the call and MPI's reason unless `result` is success.
void check(int result, std::string_view call);

}  // namespace lamina::mpi
