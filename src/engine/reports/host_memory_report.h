#pragma once

#include <string>

#include "base/host_memory_budget.h"
#include "base/json.h"

namespace lamina {

/// The budget, the limits around it and what the kernel counts for this process, all as of now. Described field by
/// field in docs/formats/report.md.
Json host_memory_json(const HostMemoryBudget& budget);

/// The same for people, one line a fact.
std::string host_memory_text(const Json& host_memory);

}  // namespace lamina
