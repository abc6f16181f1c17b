#include "weights/load_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine_fixture.h"
#include "engine/residency/part_host.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace lamina::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// The demo model's transformer on a device, with one more hook.
class Host {
 public:
  Host(const OffloadOptions& options, LoadHook hook) {
    ModelPart part = pipeline_->parts()[1];
    part.load_hooks.push_back(std::move(hook));
    parts_.push_back(std::move(part));
    host_.emplace(*device_, *compute_, *copy_, parts_, options);
  }
  ~Host() { host_->release(); }

  ActivePart& activate() { return host_->activate(0); }
  void release() { host_->release(); }

 private:
  std::unique_ptr<Device> device_ = create_cpu_device();
  std::unique_ptr<Pipeline> pipeline_ = open_pipeline(ModelFolder::open(tiny_shapes()));
  std::unique_ptr<Stream> compute_ = device_->create_stream("compute");
  std::unique_ptr<Stream> copy_ = device_->create_stream("copy");
  std::vector<ModelPart> parts_;
  std::optional<PartHost> host_;
};

class LoadHooks : public ::testing::TestWithParam<OffloadOptions> {};

INSTANTIATE_TEST_SUITE_P(Paths, LoadHooks,
                         ::testing::Values(OffloadOptions{},
                                           OffloadOptions{.stream = true,
                                                          .host_backing = HostBackingChoice::private_pages},
                                           OffloadOptions{.stream = true, .host_backing = HostBackingChoice::mapped}),
                         [](const auto& path) {
                           if (!path.param.stream) return "resident";
                           return path.param.host_backing == HostBackingChoice::mapped ? "mapped" : "private";
                         });

TEST_P(LoadHooks, BuffersMadeOfWeightsOutliveEveryStage) {
  const Checkpoint file = Checkpoint::open(tiny_shapes() / "transformer", "diffusion_pytorch_model");
  const TensorSpec norm = *file.find("transformer_blocks.2.attn.norm_q.weight");
  const TensorSpec matrix = *file.find("x_embedder.weight");
  std::vector<std::vector<std::byte>> buffers;
  Host host(GetParam(), {{norm, matrix}, [&](const LoadedTensor& tensor) {
                           buffers.emplace_back(tensor.bytes().begin(), tensor.bytes().end());
                         }});
  for (int stage = 0; stage < 2; ++stage) {
    host.activate();
    host.release();
  }
  std::vector<std::vector<std::byte>> expected;
  for (const TensorSpec& spec : {norm, matrix}) {
    const std::byte* data = file.view(spec).data();
    expected.emplace_back(data, data + spec.size_bytes());
  }
  EXPECT_EQ(buffers, expected) << "each hook runs once";
}

TEST_P(LoadHooks, ARejectionIsAFailureToStart) {
  const TensorSpec norm{"transformer_blocks.2.attn.norm_q.weight", DType::bf16, {32}};
  EXPECT_THAT(
      [&] {
        Host(GetParam(), {{norm}, [](const LoadedTensor& tensor) { tensor.reject("not today"); }});
      },
      ThrowsMessage<Error>(::testing::AllOf(HasSubstr(norm.name), HasSubstr("not today"))));
}

}  // namespace
}  // namespace lamina::test
