#include "engine/lockstep/first_fault.h"

#include "comm/rank_failure.h"

namespace lamina {

std::string to_string(const Fault& fault) {
  return as_reason(fault).message();
}

Error as_reason(const Fault& fault) {
  return rank_failure(fault.rank, Error(fault.failure.code, fault.failure.message));
}

Fault as_fault(const Error& error, std::size_t rank) {
  const auto stated = failed_rank(error);
  if (!stated) return {rank, {error.code(), error.message()}};
  return {stated->first, {stated->second.code(), stated->second.message()}};
}

}  // namespace lamina
