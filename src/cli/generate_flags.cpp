#include "cli/generate_flags.h"

namespace lamina {

InputFiles inputs_of(const GenerateFlags& flags) {
  InputFiles inputs;
  inputs.add("the model", flags.engine.config.model);
  inputs.add("--transformer", flags.engine.config.transformer_file);
  for (const Lora& lora : flags.engine.parsed().loras) inputs.add("--lora", lora.file);
  inputs.add("--prompts", flags.prompts);
  inputs.add("--prompt-embeds", flags.prompt_embeds);
  inputs.add("--noise", flags.request.noise_file);
  for (const std::string& image : flags.images) inputs.add("--image", image);
  inputs.refuse_output("--output", flags.output);
  inputs.refuse_output("--save-tensors", flags.save_tensors);
  inputs.refuse_output("--report", flags.report);
  inputs.refuse_output("--trace", flags.trace);
  return inputs;
}

}  // namespace lamina
