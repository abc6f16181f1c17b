#include "offload/offload_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_set>

#include "base/bytes.h"
#include "base/error.h"

namespace lamina {
namespace {

/// The tensor that `members` make up along axis 0 (a single one may have any rank), or nullopt where they do not fit
/// together.
std::optional<Shape> joined_shape(const std::vector<TensorSpec>& members) {
  if (members.empty()) return std::nullopt;
  const TensorSpec& first = members.front();
  if (members.size() == 1) return first.shape;
  if (first.shape.rank() == 0) return std::nullopt;
  std::int64_t rows = 0;
  for (const TensorSpec& member : members) {
    if (member.dtype != first.dtype || member.shape.rank() != first.shape.rank()) return std::nullopt;
    if (!std::ranges::equal(member.shape.extents().subspan(1), first.shape.extents().subspan(1))) return std::nullopt;
    if (member.shape[0] > std::numeric_limits<std::int64_t>::max() - rows) return std::nullopt;
    rows += member.shape[0];
  }
  std::vector<std::int64_t> extents(first.shape.extents().begin(), first.shape.extents().end());
  extents[0] = rows;
  return Shape(std::span<const std::int64_t>(extents));
}

std::string list_members(const std::vector<TensorSpec>& members) {
  std::vector<std::string> texts;
  for (const TensorSpec& member : members) texts.push_back(to_string(member));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Names seen so far; a second one of the same kind is a fault of the plan.
class UniqueNames {
 public:
  UniqueNames(const std::string& component, std::string_view kind) : component_(component), kind_(kind) {}

  void add(const std::string& name) {
    expects(seen_.insert(name).second, "offload plan of {}: {} '{}' appears twice", component_, kind_, name);
  }

 private:
  const std::string& component_;
  std::string_view kind_;
  std::unordered_set<std::string> seen_;
};

class PlanValidator {
 public:
  explicit PlanValidator(const OffloadPlan& plan) : plan_(plan) {}

  void run() {
    for (const BlockList& list : plan_.lists) lists_.add(list.name);
    for (const Stack& stack : plan_.stacks) check(stack);
    for (const ParameterGroup& group : plan_.outside) check(group);
  }

 private:
  void check(const Stack& stack) {
    stacks_.add(stack.name);
    expects(!stack.units.empty(), "offload plan of {}: stack '{}' has no units", plan_.component, stack.name);
    for (const StreamUnit& unit : stack.units) check(unit);
  }

  void check(const StreamUnit& unit) {
    units_.add(unit.block + " / " + unit.part);
    expects(unit.list < plan_.lists.size(), "offload plan of {}: unit '{} / {}' names list {} of {}", plan_.component,
            unit.block, unit.part, unit.list, plan_.lists.size());
    expects(weight_bytes(unit.groups) > 0, "offload plan of {}: unit '{} / {}' has no weights", plan_.component,
            unit.block, unit.part);
    for (const ParameterGroup& group : unit.groups) check(group);
  }

  void check(const ParameterGroup& group) {
    parameters_.add(group.runtime.name);
    for (const TensorSpec& member : group.members) tensors_.add(member.name);
    const std::optional<Shape> joined = joined_shape(group.members);
    expects(joined == group.runtime.shape && group.members.front().dtype == group.runtime.dtype,
            "offload plan of {}: parameter {} is not made up by its members ({})", plan_.component,
            to_string(group.runtime), list_members(group.members));
    expects(group.slices.empty() || std::ranges::equal(group.slices, group.members, {}, &TensorSlice::local),
            "offload plan of {}: the members of {} are not the parts that are cut for it", plan_.component,
            to_string(group.runtime));
  }

  const OffloadPlan& plan_;
  UniqueNames lists_{plan_.component, "block list"};
  UniqueNames stacks_{plan_.component, "stack"};
  UniqueNames units_{plan_.component, "unit"};
  UniqueNames parameters_{plan_.component, "parameter"};
  UniqueNames tensors_{plan_.component, "tensor"};
};

}  // namespace

std::string_view to_string(Phase phase) noexcept {
  switch (phase) {
    case Phase::step: return "step";
    case Phase::prompt: return "prompt";
    case Phase::schedule: return "schedule";
  }
  return "unknown";
}

ParameterGroup ParameterGroup::single(TensorSpec tensor) {
  return {tensor, {tensor}};
}

ParameterGroup ParameterGroup::fused(std::string runtime_name, std::vector<TensorSpec> members) {
  expects(!members.empty(), "parameter {} is fused of no tensors", runtime_name);
  const std::optional<Shape> shape = joined_shape(members);
  if (!shape)
    fail(ErrorCode::incompatible, "cannot fuse {} of {}: dtypes and all extents but the first must agree", runtime_name,
         list_members(members));
  const DType dtype = members.front().dtype;
  return {{std::move(runtime_name), dtype, *shape}, std::move(members)};
}

ParameterGroup ParameterGroup::sliced(const SliceOf& slice_of) const {
  expects(slices.empty(), "parameter {} is sliced twice", runtime.name);
  std::vector<TensorSlice> parts;
  std::vector<TensorSpec> local;
  for (const TensorSpec& member : members) local.push_back(parts.emplace_back(slice_of(member)).local());
  ParameterGroup result = fused(runtime.name, std::move(local));
  result.slices = std::move(parts);
  return result;
}

const TensorSpec& ParameterGroup::stored(std::size_t member) const {
  return slices.empty() ? members.at(member) : slices.at(member).stored();
}

void OffloadPlan::validate() const {
  PlanValidator(*this).run();
}

std::vector<TensorSpec> member_tensors(const OffloadPlan& plan) {
  std::vector<TensorSpec> tensors;
  const auto append = [&](const std::vector<ParameterGroup>& groups) {
    for (const ParameterGroup& group : groups)
      for (std::size_t member = 0; member < group.members.size(); ++member) tensors.push_back(group.stored(member));
  };
  append(plan.outside);
  for (const Stack& stack : plan.stacks)
    for (const StreamUnit& unit : stack.units) append(unit.groups);
  return tensors;
}

std::size_t weight_bytes(const ParameterGroup& group) {
  std::size_t total = 0;
  for (const TensorSpec& member : group.members) {
    const std::optional<std::int64_t> elements = member.shape.checked_elements();
    const auto size = elements ? checked_mul(static_cast<std::size_t>(*elements), size_of(member.dtype)) : std::nullopt;
    const auto sum = size ? checked_add(total, *size) : std::nullopt;
    if (!sum) fail(ErrorCode::incompatible, "the size of {} does not fit 64 bits", to_string(member));
    total = *sum;
  }
  return total;
}

std::size_t weight_bytes(const std::vector<ParameterGroup>& groups) {
  std::size_t total = 0;
  for (const ParameterGroup& group : groups) {
    const auto sum = checked_add(total, weight_bytes(group));
    if (!sum) fail(ErrorCode::incompatible, "the weights up to {} do not fit 64 bits", to_string(group.runtime));
    total = *sum;
  }
  return total;
}

std::size_t weight_bytes(const OffloadPlan& plan) {
  std::size_t total = weight_bytes(plan.outside);
  for (const Stack& stack : plan.stacks) {
    for (const StreamUnit& unit : stack.units) {
      const auto sum = checked_add(total, weight_bytes(unit.groups));
      if (!sum) fail(ErrorCode::incompatible, "the weights up to {} do not fit 64 bits", unit.block);
      total = *sum;
    }
  }
  return total;
}

}  // namespace lamina
