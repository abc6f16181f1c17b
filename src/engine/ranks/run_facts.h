#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/host_exchange.h"
#include "lamina/generate.h"
#include "pipelines/pipeline.h"

namespace lamina {

struct RankedSetup;

/// What all ranks must have been started with alike, by name: processes parse their flags each by themselves.
using RunFacts = std::vector<std::pair<std::string, std::string>>;

RunFacts facts_of(const RankedSetup& setup, const std::vector<GenerateRequest>& requests);
/// Tells a model from others: its parts, and every weight's name, dtype, shape and first bytes.
std::string fingerprint(const std::vector<ModelPart>& parts);

/// One round of processes: throws incompatible in all of them alike, naming rank, fact and both values, unless they
/// have the same facts. `ranks` are their first ranks.
void agree_on(const RunFacts& facts, HostExchange& rounds, std::span<const std::size_t> ranks);

}  // namespace lamina
