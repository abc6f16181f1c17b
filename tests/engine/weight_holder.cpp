// A process that holds the transformer of a model as it is told, for tests that look at its memory from outside.
//
//     lamina_weight_holder MODEL
//
// Each line of the standard input, "private", "mapped" or "nothing", replaces what is held: every block was streamed
// through the ring by then. The answer is a line of JSON: bytes on the device (which on the CPU device are the
// process's own), and pinned ones. Ends with its input.

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "device/cpu/cpu_device.h"
#include "engine/residency/part_host.h"
#include "pipelines/registry.h"
#include "weights/model_folder.h"

namespace {

using namespace lamina;

/// An engine without requests: the transformer is active, its ring full.
class HeldWeights {
 public:
  HeldWeights(const std::string& model, HostBackingChoice backing)
      : device_(create_cpu_device()),
        pipeline_(open_pipeline(ModelFolder::open(model))),
        compute_(device_->create_stream("compute")),
        copy_(device_->create_stream("copy")),
        host_(*device_, *compute_, *copy_, pipeline_->parts(), {.stream = true, .host_backing = backing}) {
    for (std::size_t part = 0; part < pipeline_->parts().size(); ++part)
      if (pipeline_->parts()[part].is_transformer) stream_all(part);
  }
  ~HeldWeights() { host_.release(); }
  HeldWeights(const HeldWeights&) = delete;
  HeldWeights& operator=(const HeldWeights&) = delete;

  Json sizes() const {
    return {{"device_bytes", device_->memory().use().used_bytes}, {"pinned_bytes", device_->pinned_bytes()}};
  }

 private:
  void stream_all(std::size_t part) {
    const Stack& stack = pipeline_->parts()[part].plan.stacks.front();
    BlockStream& stream = host_.activate(part).stream();
    for (int pass = 0; pass < 2; ++pass) {
      stream.begin_pass(0);
      for (std::size_t unit = 0; unit < stack.units.size(); ++unit) stream.enter(unit).leave();
      stream.end_pass();
    }
    stream.take_statistics();
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<Stream> compute_;
  std::unique_ptr<Stream> copy_;
  PartHost host_;
};

void serve(const std::string& model) {
  std::unique_ptr<HeldWeights> held;
  for (std::string command; std::getline(std::cin, command);) {
    held.reset();  // never both
    if (command != "nothing")
      held = std::make_unique<HeldWeights>(
          model, command == "mapped" ? HostBackingChoice::mapped : HostBackingChoice::private_pages);
    const Json answer = held ? held->sizes() : Json{{"device_bytes", 0}, {"pinned_bytes", 0}};
    fmt::print("{}\n", answer.dump());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) fail(ErrorCode::invalid_argument, "lamina_weight_holder MODEL");
    serve(argv[1]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "lamina_weight_holder: {}\n", error.what());
    return 1;
  }
}
