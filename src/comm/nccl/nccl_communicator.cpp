#include "comm/nccl/nccl_communicator.h"

#include <utility>

#include "base/error.h"
#include "comm/nccl/nccl_group.h"
#include "device/cuda/cuda_native.h"
#include "device/device.h"

namespace lamina {
namespace nccl {
namespace {

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const std::string& name, std::size_t local, std::shared_ptr<NcclGroup> group)
      : Communicator(name, group->first_rank() + local, group->size()), local_(local), group_(std::move(group)) {}

  void abort(const Error& reason) noexcept override { group_->abort(reason); }
  void check() const override { group_->check(); }

 private:
  /// NCCL has no barrier; a sum over one number of each rank is one. A stream's device memory for it is made when it is
  /// asked for first.
  std::byte* barrier_memory(Stream& stream) {
    if (barrier_.size_bytes() == 0) barrier_ = stream.device().allocate(sizeof(float), "communication");
    return barrier_.data();
  }

  void do_enqueue(const Collective& collective, const Access&, Stream& stream) override {
    const cudaStream_t native = cuda::native(stream);
    cuda::watch(stream, group_);
    Collective asked = collective;
    if (asked.kind == Collective::Kind::barrier)
      asked = {.kind = Collective::Kind::all_reduce,
               .target = barrier_memory(stream),
               .piece_bytes = sizeof(float),
               .dtype = DType::f32};
    group_->enqueue(local_, [&](ncclComm_t communicator) { return call(asked, communicator, native); });
  }

  ncclResult_t call(const Collective& collective, ncclComm_t communicator, cudaStream_t stream) const {
    const std::size_t size = collective.piece_bytes;
    switch (collective.kind) {
      case Collective::Kind::all_gather:
        return ncclAllGather(collective.target + rank() * size, collective.target, size, ncclInt8, communicator,
                             stream);
      case Collective::Kind::all_to_all:
        return ncclAlltoAll(collective.source, collective.target, size, ncclInt8, communicator, stream);
      case Collective::Kind::all_reduce:
        return ncclAllReduce(collective.target, collective.target, size / size_of(collective.dtype),
                             collective.dtype == DType::bf16 ? ncclBfloat16 : ncclFloat32, ncclSum, communicator,
                             stream);
      case Collective::Kind::broadcast:
        return ncclBroadcast(collective.target, collective.target, size, ncclInt8, static_cast<int>(collective.root),
                             communicator, stream);
      case Collective::Kind::barrier: break;  // became an all-reduce
    }
    return ncclInvalidArgument;
  }

  std::size_t local_;
  std::shared_ptr<NcclGroup> group_;
  DeviceBuffer barrier_;
};

}  // namespace
}  // namespace nccl

std::vector<std::unique_ptr<Communicator>> create_nccl_group(const std::string& name, const std::vector<int>& devices) {
  return create_nccl_group(
      name,
      {.id = create_nccl_id(), .size = devices.size(), .devices = devices, .fate = std::make_shared<SharedFate>()});
}

std::vector<std::byte> create_nccl_id() {
  ncclUniqueId id;
  if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess)
    fail(ErrorCode::device, "NCCL: {}", ncclGetErrorString(result));
  const auto* begin = reinterpret_cast<const std::byte*>(&id);
  return {begin, begin + sizeof(id)};
}

std::vector<std::unique_ptr<Communicator>> create_nccl_group(const std::string& name, const NcclPart& part) {
  const auto group = std::make_shared<nccl::NcclGroup>(name, part);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (std::size_t local = 0; local < part.devices.size(); ++local)
    communicators.push_back(std::make_unique<nccl::NcclCommunicator>(name, local, group));
  return communicators;
}

}  // namespace lamina
