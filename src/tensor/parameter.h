#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tensor/tensor_spec.h"
#include "tensor/tensor_view.h"

namespace lamina {

/// A weight of a module tree. Its bytes come and go: it is a placeholder except while somebody has bound it to device
/// memory (a part that is active, a unit under lease). The binder owns the bytes. Used by the thread that launches
/// work; not thread safe.
class Parameter {
 public:
  Parameter() = default;
  explicit Parameter(TensorSpec spec) : spec_(std::move(spec)) {}

  const TensorSpec& spec() const noexcept { return spec_; }
  const std::string& name() const noexcept { return spec_.name; }
  bool is_placeholder() const noexcept { return state_ == State::placeholder; }

  /// The weight on the device; throws internal naming the parameter while it is a placeholder.
  ConstTensorView view() const;

  /// `data` holds `spec().size_bytes()` bytes until `unbind`.
  void bind(const std::byte* data);
  /// For planning runs: `view` has the shape and no data.
  void bind_shape_only();
  void unbind() noexcept;

 private:
  enum class State { placeholder, shape_only, bound };

  TensorSpec spec_;
  State state_ = State::placeholder;
  const std::byte* data_ = nullptr;
};

/// Binds all `parameters` that are placeholders shape-only, and makes placeholders of them again on destruction.
class ShapeOnlyBinding {
 public:
  explicit ShapeOnlyBinding(std::vector<Parameter*> parameters);
  ~ShapeOnlyBinding();
  ShapeOnlyBinding(const ShapeOnlyBinding&) = delete;
  ShapeOnlyBinding& operator=(const ShapeOnlyBinding&) = delete;

 private:
  std::vector<Parameter*> bound_;
};

}  // namespace lamina
