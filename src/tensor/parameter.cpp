#include "tensor/parameter.h"

#include "base/error.h"

namespace lamina {

ConstTensorView Parameter::view() const {
  if (is_placeholder()) fail(ErrorCode::internal, "parameter {} was touched outside its lease", to_string(spec_));
  return ConstTensorView(data_, spec_.dtype, spec_.shape);
}

void Parameter::bind(const std::byte* data) {
  expects(data != nullptr, "parameter {} bound to no memory", spec_.name);
  data_ = data;
  state_ = State::bound;
}

void Parameter::bind_shape_only() {
  data_ = nullptr;
  state_ = State::shape_only;
}

void Parameter::unbind() noexcept {
  data_ = nullptr;
  state_ = State::placeholder;
}

ShapeOnlyBinding::ShapeOnlyBinding(std::vector<Parameter*> parameters) {
  for (Parameter* parameter : parameters) {
    if (!parameter->is_placeholder()) continue;
    parameter->bind_shape_only();
    bound_.push_back(parameter);
  }
}

ShapeOnlyBinding::~ShapeOnlyBinding() {
  for (Parameter* parameter : bound_) parameter->unbind();
}

}  // namespace lamina
