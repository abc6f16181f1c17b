#include "comm/meeting_topic.h"

#include <fmt/format.h>

#include <utility>

namespace lamina {

std::string describe(const MeetingTopic& topic) {
  return fmt::format("collective {}, {} of {} bytes", topic.sequence, topic.what, topic.size_bytes);
}

Error disagreement(const std::string& group, Entrant one, Entrant other) {
  const bool in_order = one.rank < other.rank;
  const Entrant& first = in_order ? one : other;
  const Entrant& second = in_order ? other : one;
  return Error(ErrorCode::internal,
               fmt::format("the ranks of group '{}' disagree on their order: rank {} entered {}, rank {} entered {}",
                           group, first.rank, describe(first.topic), second.rank, describe(second.topic)));
}

}  // namespace lamina
