#include "base/error.h"
#include "comm/nccl/nccl_communicator.h"

// In place of comm/nccl, in a build without NCCL.
namespace lamina {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  fail(ErrorCode::unavailable, "{}: this build has no NCCL; configure the preset cuda where there is NCCL 2.28", what);
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> create_nccl_group(const std::string& name, const std::vector<int>& devices) {
  refuse(fmt::format("group '{}' of {} GPUs", name, devices.size()));
}

std::vector<std::byte> create_nccl_id() {
  refuse("a group of GPUs of several processes");
}

std::vector<std::unique_ptr<Communicator>> create_nccl_group(const std::string& name, const NcclPart& part) {
  refuse(fmt::format("group '{}' of {} GPUs", name, part.size));
}

}  // namespace lamina
