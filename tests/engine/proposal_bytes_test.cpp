#include "engine/lockstep/proposal_bytes.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"

namespace lamina {
namespace {

using testing::expect_error;

Proposal full_proposal() {
  return {.arrivals = {{.id = 7,
                        .legs = {{0, 1, std::chrono::nanoseconds(1234567890123)}, {1, 50, std::chrono::nanoseconds(5)}},
                        .explicit_steps = 50,
                        .payload = std::string("a\0b", 3)},
                       {.id = 8, .legs = {{2, 1}}}},
          .cancellations = {3, 4},
          .stop = true,
          .votes = {{.id = 5, .answer = ReserveVote::Answer::never, .failure = {ErrorCode::not_found, "no such file"}},
                    {.id = 6}},
          .failures = {{.id = 1, .failure = {ErrorCode::internal, "a bad value"}}}};
}

TEST(ProposalBytes, AProposalSurvivesTheJourney) {
  EXPECT_EQ(proposal_from_bytes(to_bytes(full_proposal())), full_proposal());
  EXPECT_EQ(proposal_from_bytes(to_bytes({})), Proposal{});
}

TEST(ProposalBytes, AnEmptyProposalIsFiveWords) {
  EXPECT_EQ(to_bytes({}).size(), 5 * sizeof(std::uint64_t));
}

TEST(ProposalBytes, EveryCutIsRefused) {
  const std::vector<std::byte> bytes = to_bytes(full_proposal());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    expect_error(ErrorCode::corrupt, {"a proposal of another rank ends early"},
                 [&] { proposal_from_bytes(std::span(bytes).first(size)); });
}

TEST(ProposalBytes, WhatFollowsAProposalIsRefused) {
  std::vector<std::byte> bytes = to_bytes(full_proposal());
  bytes.push_back(std::byte{0});
  expect_error(ErrorCode::corrupt, {"1 bytes too many"}, [&] { proposal_from_bytes(bytes); });
}

TEST(ProposalBytes, ValuesOutOfRangeAreRefused) {
  std::vector<std::byte> bytes = to_bytes({.stop = true});
  bytes[16] = std::byte{2};
  expect_error(ErrorCode::corrupt, {"found 2, expected at most 1"}, [&] { proposal_from_bytes(bytes); });

  bytes = to_bytes({.votes = {{.id = 1, .answer = ReserveVote::Answer::never}}});
  bytes[40] = std::byte{3};
  expect_error(ErrorCode::corrupt, {"found 3, expected at most 2"}, [&] { proposal_from_bytes(bytes); });
}

TEST(ProposalBytes, AFalseCountEndsWithTheBytes) {
  std::vector<std::byte> bytes = to_bytes({});
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = std::byte{0xFF};
  expect_error(ErrorCode::corrupt, {"ends early"}, [&] { proposal_from_bytes(bytes); });
}

}  // namespace
}  // namespace lamina
