#include "base/error.h"
#include "comm/rank_connector.h"

// In place of comm/mpi, in a build without MPI.
namespace lamina {

std::unique_ptr<RankConnector> connect_processes(const ProcessOptions&) {
  fail(ErrorCode::unavailable,
       "this build has no MPI, so ranks are threads of one process: install Open MPI (Debian: libopenmpi-dev) and "
       "configure again with LAMINA_MPI=ON, or start lamina without mpirun");
}

}  // namespace lamina
