#include <iostream>

#include "lamina/engine.h"
#include "lamina/error.h"

/// Makes a small picture with the model folder it is given, with streamed weights: enough to need every library.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: consumer MODEL\n";
    return 2;
  }
  try {
    lamina::EngineConfig config;
    config.model = argv[1];
    config.enable_distributed_layerwise_offload = true;
    lamina::Engine engine(config);

    lamina::GenerateRequest request;
    request.prompt = "a red circle on a white background";
    request.width = 64;
    request.height = 32;
    request.num_inference_steps = 1;
    const lamina::Picture picture = engine.generate(request).picture;
    std::cout << "lamina " << lamina::version() << ": " << picture.width << " x " << picture.height << '\n';
  } catch (const lamina::Error& error) {
    std::cerr << lamina::to_string(error.code()) << ": " << error.message() << '\n';
    return 1;
  }
}
