#include "pipelines/chat_template.h"

#include <optional>
#include <string>
#include <string_view>

#include "base/config_reader.h"
#include "base/error.h"
#include "base/file.h"

namespace lamina {
namespace {

struct Template {
  std::string source;  ///< file, and field where it is one
  std::string text;
};

/// The field is a template, or a list of named ones, of which "default" counts.
std::optional<Template> template_of(const ConfigReader& config) {
  constexpr const char* kField = "chat_template";
  if (!config.has(kField)) return std::nullopt;
  const Json& value = config.json().at(kField);
  const std::string source = config.source() + ": field 'chat_template'";
  if (!value.is_array()) return Template{source, config.text(kField)};
  for (const Json& named : value)
    if (named.is_object() && named.value("name", "") == "default") return Template{source, named.value("template", "")};
  return std::nullopt;
}

/// transformers takes the file before the field.
std::optional<Template> find_template(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "chat_template.jinja";
  if (is_there(file)) return Template{file.string(), read_text_file(file)};
  if (const std::filesystem::path config = folder / "tokenizer_config.json"; is_there(config))
    return template_of(ConfigReader::read(config));
  return std::nullopt;
}

}  // namespace

void check_chat_template(const std::filesystem::path& tokenizer_folder) {
  const std::optional<Template> found = find_template(tokenizer_folder);
  if (!found) return;
  for (const std::string_view part :
       {"<|im_start|>", "<|im_end|>", "add_generation_prompt", "enable_thinking", "<think>", "</think>"})
    if (found->text.find(part) == std::string::npos)
      fail(ErrorCode::incompatible, "{}: the chat template lacks '{}'; only the format of Qwen3 is supported",
           found->source, part);
}

}  // namespace lamina
