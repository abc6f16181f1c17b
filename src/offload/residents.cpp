#include "offload/residents.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "base/error.h"

namespace lamina {
namespace {

/// The rank of each eligible block of the stack, in stack order.
std::unordered_map<std::string_view, std::size_t> rank_eligible_blocks(const OffloadPlan& plan, const Stack& stack) {
  std::unordered_map<std::string_view, std::size_t> ranks;
  if (stack.phase != Phase::step) return ranks;
  for (const StreamUnit& unit : stack.units)
    if (plan.lists.at(unit.list).resident_eligible) ranks.try_emplace(unit.block, ranks.size());
  return ranks;
}

std::vector<bool> choose_ranks(std::size_t eligible, std::size_t blocks, ResidentPolicy policy) {
  std::vector<bool> chosen(eligible, false);
  for (std::size_t i = 0; i < blocks; ++i) chosen[policy == ResidentPolicy::leading ? i : i * eligible / blocks] = true;
  return chosen;
}

}  // namespace

ResidentPolicy parse_resident_policy(std::string_view text, std::string_view flag) {
  for (const ResidentPolicy policy : {ResidentPolicy::leading, ResidentPolicy::spread})
    if (text == to_string(policy)) return policy;
  fail(ErrorCode::invalid_argument, "{}: '{}' is no resident policy; leading or spread is", flag, text);
}

std::string_view to_string(ResidentPolicy policy) noexcept {
  return policy == ResidentPolicy::leading ? "leading" : "spread";
}

std::vector<bool> choose_residents(const OffloadPlan& plan, const Stack& stack, std::size_t blocks,
                                   ResidentPolicy policy) {
  const auto ranks = rank_eligible_blocks(plan, stack);
  const std::vector<bool> chosen = choose_ranks(ranks.size(), std::min(blocks, ranks.size()), policy);
  std::vector<bool> resident;
  for (const StreamUnit& unit : stack.units) {
    const auto rank = ranks.find(unit.block);
    resident.push_back(rank != ranks.end() && chosen[rank->second]);
  }
  return resident;
}

std::size_t eligible_block_count(const OffloadPlan& plan, const Stack& stack) {
  return rank_eligible_blocks(plan, stack).size();
}

}  // namespace lamina
