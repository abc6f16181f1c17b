#include "pipelines/chat_template.h"

#include <gtest/gtest.h>

#include <string>

#include "base/expect_error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/temporary_folder.h"
#include "pipelines/paths.h"

namespace lamina {
namespace {

class ChatTemplate : public ::testing::Test {
 protected:
  void write_field(const Json& value) const {
    folder_.write("tokenizer_config.json", Json{{"chat_template", value}}.dump());
  }
  void check() const { check_chat_template(folder_.path()); }
  void refused(const std::vector<std::string>& parts) const {
    testing::expect_error(ErrorCode::incompatible, parts, [&] { check(); });
  }

  const testing::TemporaryFolder folder_;
  const std::string qwen3_ = read_text_file(testing::tiny_shapes("tokenizer/chat_template.jinja"));
  /// Of Qwen2.5, which knows no thinking.
  const std::string older_ =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
};

TEST_F(ChatTemplate, ThoseOfQwen3AreTaken) {
  check();  // none at all
  write_field(qwen3_);
  check();
  write_field(
      Json::array({{{"name", "tool_use"}, {"template", "other"}}, {{"name", "default"}, {"template", qwen3_}}}));
  check();
}

TEST_F(ChatTemplate, OthersAreRefusedByFileAndWhatTheyLack) {
  write_field(older_);
  refused({"tokenizer_config.json", "'chat_template'", "'enable_thinking'", "Qwen3"});
  folder_.write("chat_template.jinja", "[INST] {{ messages[0].content }} [/INST]");
  refused({"chat_template.jinja", "'<|im_start|>'"});
  folder_.write("chat_template.jinja", qwen3_);  // which counts before the field
  check();
}

}  // namespace
}  // namespace lamina
