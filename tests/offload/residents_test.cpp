#include "offload/residents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lamina/error.h"

namespace lamina {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// One stack over lists of the given lengths; each block has `parts` units.
OffloadPlan plan_of(const std::vector<BlockList>& lists, const std::vector<std::size_t>& lengths,
                    std::size_t parts = 1) {
  OffloadPlan plan{"transformer", lists, {{"step", Phase::step, {}}}, {}};
  for (std::size_t list = 0; list < lists.size(); ++list)
    for (std::size_t block = 0; block < lengths[list]; ++block)
      for (std::size_t part = 0; part < parts; ++part)
        plan.stacks[0].units.push_back(
            {lists[list].name + "." + std::to_string(block), std::to_string(part), list, {}});
  return plan;
}

std::string choose(const OffloadPlan& plan, std::size_t blocks, ResidentPolicy policy) {
  std::string marks;
  for (const bool resident : choose_residents(plan, plan.stacks[0], blocks, policy)) marks += resident ? 'R' : '.';
  return marks;
}

TEST(Residents, LeadingTakesTheFirstBlocksAcrossLists) {
  const OffloadPlan plan = plan_of({{"double"}, {"single"}}, {2, 5});
  EXPECT_EQ(choose(plan, 0, ResidentPolicy::leading), ".......");
  EXPECT_EQ(choose(plan, 3, ResidentPolicy::leading), "RRR....");
  EXPECT_EQ(choose(plan, 7, ResidentPolicy::leading), "RRRRRRR");
}

TEST(Residents, SpreadTakesThemEvenly) {
  const OffloadPlan plan = plan_of({{"double"}, {"single"}}, {2, 5});
  EXPECT_EQ(choose(plan, 0, ResidentPolicy::spread), ".......");
  EXPECT_EQ(choose(plan, 1, ResidentPolicy::spread), "R......");
  EXPECT_EQ(choose(plan, 3, ResidentPolicy::spread), "R.R.R..");
  EXPECT_EQ(choose(plan, 5, ResidentPolicy::spread), "RRR.RR.");
  EXPECT_EQ(choose(plan, 7, ResidentPolicy::spread), "RRRRRRR");
}

TEST(Residents, MoreThanThereAreKeepsAll) {
  const OffloadPlan plan = plan_of({{"blocks"}}, {3});
  EXPECT_EQ(choose(plan, 100, ResidentPolicy::leading), "RRR");
  EXPECT_EQ(choose(plan, 100, ResidentPolicy::spread), "RRR");
}

TEST(Residents, OnlyEligibleListsCount) {
  const OffloadPlan plan = plan_of({{"refiner", false}, {"blocks"}}, {2, 4});
  EXPECT_EQ(choose(plan, 1, ResidentPolicy::leading), "..R...");
  EXPECT_EQ(choose(plan, 2, ResidentPolicy::spread), "..R.R.");
  EXPECT_EQ(choose(plan, 9, ResidentPolicy::spread), "..RRRR");
}

TEST(Residents, PartsOfABlockStayTogether) {
  const OffloadPlan plan = plan_of({{"blocks"}}, {4}, 2);
  EXPECT_EQ(choose(plan, 1, ResidentPolicy::leading), "RR......");
  EXPECT_EQ(choose(plan, 2, ResidentPolicy::spread), "RR..RR..");
}

TEST(ResidentPolicy, IsParsed) {
  EXPECT_EQ(parse_resident_policy("leading", "--flag"), ResidentPolicy::leading);
  EXPECT_EQ(parse_resident_policy("spread", "--flag"), ResidentPolicy::spread);
  EXPECT_EQ(to_string(ResidentPolicy::spread), "spread");
  for (const std::string_view text : {"", "Leading", "last"}) {
    try {
      parse_resident_policy(text, "--dlo-resident-policy");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(error.message(), HasSubstr("--dlo-resident-policy: '" + std::string(text) + "'"));
    }
  }
}

}  // namespace
}  // namespace lamina
