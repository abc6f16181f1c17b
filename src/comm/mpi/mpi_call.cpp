#include "comm/mpi/mpi_call.h"

#include <array>
#include <string>

#include "base/error.h"

namespace lamina::mpi {

void check(int result, std::string_view call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  fail(ErrorCode::device, "{}: {}", call, std::string(text.data(), static_cast<std::size_t>(length)));
}

}  // namespace lamina::mpi
