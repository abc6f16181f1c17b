#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "lamina/error.h"

namespace lamina {

/// A failure of one rank as the reason for which groups end: "rank 2 failed, and with it its group: ...". So the ranks
/// of other processes learn which one it was.
Error rank_failure(std::size_t rank, const Error& failure);

/// The rank that such a reason names, and its failure; nothing where the reason names none.
std::optional<std::pair<std::size_t, Error>> failed_rank(const Error& reason);

}  // namespace lamina
