#include "base/json.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace lamina {
namespace {

constexpr std::size_t kMaxDepth = 100;
constexpr std::size_t kMaxExcerptBytes = 80;
constexpr std::size_t kMaxReasonBytes = 240;

/// Cuts at `limit` bytes, never inside a UTF-8 sequence.
std::string shortened(std::string text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  return text.substr(0, limit) + "...";
}

/// Builds the document from the parser's events. The library's own builder searches all earlier keys of an object for
/// each new one (a vocabulary has 150,000) and keeps the last of equal keys silently.
class StrictBuilder final : public nlohmann::json_sax<Json> {
 public:
  using Visit = std::function<void(const std::string&, const Json&)>;

  explicit StrictBuilder(std::string_view source) : source_(source) {}
  /// Hands the members of the root over instead of keeping them.
  StrictBuilder(std::string_view source, std::size_t max_values, const Visit& visit)
      : source_(source), max_values_(max_values), visit_(&visit) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (!open_.back().keys.insert(name).second)
      fail(ErrorCode::corrupt, "{}: duplicate key {} in {}", source_, excerpt(name), place());
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    fail(ErrorCode::corrupt, "{}: not valid JSON: {}", source_, shortened(reason(error.what()), kMaxReasonBytes));
  }

 private:
  struct Open {
    Json* value = nullptr;
    std::string name;
    std::unordered_set<std::string> keys;
  };

  /// Places the value in the innermost open container. Pointers to open containers stay valid: a container grows only
  /// while it is the innermost one.
  Json* place_value(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (++values_ > max_values_)
      fail(ErrorCode::corrupt, "{}: {} holds more than {} values", source_, place(), max_values_);
    Json& parent = *open_.back().value;
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &parent.get_ref<Json::object_t&>().emplace_back(key_, std::move(value)).second;
  }

  bool add(Json value) {
    place_value(std::move(value));
    return end_value();
  }

  /// After a whole value; hands it over where it is a member of the root.
  bool end_value() {
    if (visit_ == nullptr || open_.size() != 1 || !root_.is_object()) return true;
    auto& members = root_.get_ref<Json::object_t&>();
    (*visit_)(members.back().first, members.back().second);
    members.clear();
    values_ = 0;
    return true;
  }

  bool open(Json container) {
    if (open_.size() == kMaxDepth)
      fail(ErrorCode::corrupt, "{}: JSON nested deeper than {} in {}", source_, kMaxDepth, place());
    std::string name = open_.empty() ? "" : open_.back().value->is_array() ? "[]" : key_;
    Json* value = place_value(std::move(container));
    open_.push_back({value, std::move(name), {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return end_value();
  }

  /// Where the innermost open container stands: "the top level" or a path of keys.
  std::string place() const {
    if (open_.size() < 2) return "the top level";
    std::string path;
    for (std::size_t level = 1; level < open_.size(); ++level) path += (level > 1 ? "." : "") + open_[level].name;
    return excerpt(path);
  }

  /// The library's message without its "[json.exception.parse_error.101] " in front. It quotes the text as it stands,
  /// which need not be UTF-8.
  static std::string reason(std::string message) {
    if (const std::size_t end = message.find("] "); end != std::string::npos) message.erase(0, end + 2);
    std::ranges::replace_if(
        message, [](unsigned char byte) { return byte >= 0x80; }, '?');
    return message;
  }

  std::string_view source_;
  std::size_t max_values_ = std::numeric_limits<std::size_t>::max();
  const Visit* visit_ = nullptr;
  std::size_t values_ = 0;  ///< placed since the last hand-over
  Json root_;
  std::vector<Open> open_;
  std::string key_;
};

void run(std::string_view text, std::string_view source, StrictBuilder& builder) {
  // The library takes a zero byte for the end of the text and would ignore what follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    fail(ErrorCode::corrupt, "{}: not valid JSON: zero byte at position {}", source, zero);
  Json::sax_parse(text, &builder, Json::input_format_t::json, /*strict=*/true, /*ignore_comments=*/false);
}

}  // namespace

Json parse_json(std::string_view text, std::string_view source) {
  StrictBuilder builder(source);
  run(text, source, builder);
  return builder.take();
}

void visit_json_members(std::string_view text, std::string_view source, std::size_t max_values,
                        const std::function<void(const std::string& name, const Json& value)>& visit) {
  StrictBuilder builder(source, max_values, visit);
  run(text, source, builder);
  if (const Json root = builder.take(); !root.is_object())
    fail(ErrorCode::corrupt, "{}: found {}; a JSON object is expected", source, excerpt(root));
}

Json read_json_file(const std::filesystem::path& path) {
  return parse_json(read_text_file(path), path.string());
}

std::string excerpt(const Json& value) {
  return shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace), kMaxExcerptBytes);
}

}  // namespace lamina
