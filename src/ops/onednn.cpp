#include "ops/onednn.h"

#include <fmt/ranges.h>

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/team_scope.h"

namespace lamina::ops::onednn {

namespace {

/// The calling thread's stream. oneDNN's CPU streams run what they are given at once.
dnnl::stream& thread_stream() {
  thread_local dnnl::stream stream(engine());
  return stream;
}

class PrimitiveCache {
 public:
  using Key = std::pair<std::string, std::vector<std::int64_t>>;

  std::shared_ptr<const Primitive> get(const Key& key, const std::function<dnnl::primitive_desc_base()>& describe) {
    const std::lock_guard lock(mutex_);
    if (const auto found = primitives_.find(key); found != primitives_.end()) return found->second;
    if (primitives_.size() >= kCapacity) primitives_.clear();
    return primitives_.emplace(key, make(key, describe)).first->second;
  }

 private:
  /// Far above the distinct shapes of one picture, so that dropping all of them at once stays rare.
  static constexpr std::size_t kCapacity = 512;

  static std::shared_ptr<const Primitive> make(const Key& key,
                                               const std::function<dnnl::primitive_desc_base()>& describe) {
    // oneDNN splits a primitive's work for the team of the thread that makes it: here, the one of stream threads.
    const lamina::cpu::TeamScope team(cpu_team_size());
    try {
      return std::make_shared<const Primitive>(describe());
    } catch (const dnnl::error& error) {
      fail(ErrorCode::not_implemented, "{}: oneDNN has no primitive for [{}]: {}", key.first,
           fmt::join(key.second, ", "), error.what());
    }
  }

  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Primitive>> primitives_;
};

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::memory::desc matrix(const dnnl::memory::dims& extents, const dnnl::memory::dims& strides) {
  return {extents, dnnl::memory::data_type::f32, strides};
}

Argument input(int number, const std::byte* data) {
  return {number, const_cast<std::byte*>(data)};
}

Primitive::Primitive(const dnnl::primitive_desc_base& description)
    : primitive_(description.get()), scratchpad_bytes_(description.scratchpad_desc().get_size()) {}

dnnl::memory::desc Primitive::description_of(int argument) const {
  const dnnl_memory_desc_t* description =
      dnnl_primitive_desc_query_md(primitive_.get_primitive_desc(), dnnl_query_exec_arg_md, argument);
  expects(description != nullptr, "the oneDNN primitive has no argument {}", argument);
  return dnnl::memory::desc(*description);
}

void Primitive::run(std::byte* scratchpad, std::initializer_list<Argument> arguments) const {
  try {
    std::unordered_map<int, dnnl::memory> operands;
    for (const auto& [number, data] : arguments) {
      operands.emplace(number, dnnl::memory(description_of(number), engine(), data));
    }
    if (scratchpad_bytes_ > 0) {
      operands.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(description_of(DNNL_ARG_SCRATCHPAD), engine(), scratchpad));
    }
    primitive_.execute(thread_stream(), operands);
  } catch (const dnnl::error& error) {
    fail(ErrorCode::device, "a oneDNN primitive failed: {}", error.what());
  }
}

std::shared_ptr<const Primitive> cached(std::string_view operation, std::initializer_list<std::int64_t> key,
                                        const std::function<dnnl::primitive_desc_base()>& describe_primitive) {
  static PrimitiveCache cache;
  return cache.get({std::string(operation), std::vector<std::int64_t>(key)}, describe_primitive);
}

}  // namespace lamina::ops::onednn
