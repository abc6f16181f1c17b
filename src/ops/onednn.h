#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string_view>

/// What the CPU versions of operations share of oneDNN. They make (or look up) a primitive where they are called, on
/// the launching thread, ask the context for its scratchpad with the rest of their scratch, and run it on the stream's
/// thread.
namespace lamina::ops::onednn {

/// The CPU engine of the process.
const dnnl::engine& engine();

/// Attributes under which the caller owns the scratchpad, so that it counts as scratch and a run allocates nothing.
dnnl::primitive_attr user_scratchpad();

/// An f32 matrix with these extents and strides, in elements.
dnnl::memory::desc matrix(const dnnl::memory::dims& extents, const dnnl::memory::dims& strides);

/// One operand of a run: a DNNL_ARG_ number and where its bytes are.
struct Argument {
  int number;
  std::byte* data;
};

/// The argument of an operand that is only read: oneDNN takes all pointers as mutable.
Argument input(int number, const std::byte* data);

/// A oneDNN primitive with a caller-owned scratchpad. Immutable; may run on several threads at once, each with its own
/// scratchpad.
class Primitive {
 public:
  /// Compiles what `description` describes. `description` was made with `user_scratchpad()`.
  explicit Primitive(const dnnl::primitive_desc_base& description);

  std::size_t scratchpad_bytes() const noexcept { return scratchpad_bytes_; }

  /// Layout of an operand by its DNNL_ARG_ number: the one oneDNN chose where the description left it open.
  dnnl::memory::desc description_of(int argument) const;

  /// Runs on the calling thread and its OpenMP team until done. `scratchpad` is 64-byte aligned. Throws device where
  /// oneDNN fails.
  void run(std::byte* scratchpad, std::initializer_list<Argument> arguments) const;

 private:
  dnnl::primitive primitive_;
  std::size_t scratchpad_bytes_;
};

/// The primitive of `operation` for the shapes, strides and options in `key`, made where it is asked for the first
/// time. Primitives are made for a team of `cpu_team_size()` threads whatever the calling thread's own. The last few
/// hundred are kept; evicted ones live on with their users. Thread safe. Throws not_implemented naming the operation
/// and the key where oneDNN has no such primitive.
std::shared_ptr<const Primitive> cached(std::string_view operation, std::initializer_list<std::int64_t> key,
                                        const std::function<dnnl::primitive_desc_base()>& describe_primitive);

}  // namespace lamina::ops::onednn
