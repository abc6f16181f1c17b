#pragma once

#include <omp.h>

namespace lamina::cpu {

/// OpenMP team that the calling thread would start.
inline int thread_team_size() {
  return omp_get_max_threads();
}

/// Gives the calling thread another OpenMP team size until the end of the scope.
class TeamScope {
 public:
  explicit TeamScope(int team_size) : previous_(thread_team_size()) { omp_set_num_threads(team_size); }
  ~TeamScope() { omp_set_num_threads(previous_); }
  TeamScope(const TeamScope&) = delete;
  TeamScope& operator=(const TeamScope&) = delete;

 private:
  int previous_;
};

}  // namespace lamina::cpu
