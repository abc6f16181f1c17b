#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lamina/error.h"

namespace lamina {

/// What a rank believes that a meeting of its group is about; all ranks of one must agree.
struct MeetingTopic {
  std::uint64_t sequence = 0;  ///< meetings of the group so far, as the rank counts them
  std::string what;            ///< "all-gather"
  std::size_t size_bytes = 0;
  bool operator==(const MeetingTopic&) const = default;
};

/// "collective 3, all-gather of 64 bytes".
std::string describe(const MeetingTopic& topic);

/// One of two ranks that did not enter the same.
struct Entrant {
  std::size_t rank;
  const MeetingTopic& topic;
};

/// The error of a group two ranks of which disagree; the same whoever finds it.
Error disagreement(const std::string& group, Entrant one, Entrant other);

}  // namespace lamina
