#pragma once

#include "comm/rank_connector.h"
#include "engine/ranks/ranked_run.h"

namespace lamina {

/// What all processes of a run know together: the totals of all ranks, all coupling, and how every request ended.
/// Results stay with the processes that made them. Every process calls it behind its own run, and gets the same; throws
/// the reason where a rank of another one failed.
RankedRun gather_run(RankConnector& connector, const RankedRun& own);

}  // namespace lamina
