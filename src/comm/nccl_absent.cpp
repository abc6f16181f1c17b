#include "base/error.h"
#include "comm/nccl/nccl_communicator.h"

// In place of comm/nccl, in a build without NCCL.
namespace lamina {

std::vector<std::unique_ptr<Communicator>> create_nccl_group(const std::string& name, const std::vector<int>& devices) {
  fail(ErrorCode::unavailable,
       "group '{}' of {} GPUs: this build has no NCCL; configure the preset cuda where there is NCCL 2.28", name,
       devices.size());
}

}  // namespace lamina
