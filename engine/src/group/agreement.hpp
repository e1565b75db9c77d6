// What one rank cannot do becomes known to all ranks, so that none continues alone. Outside timed regions.
#pragma once

#include <algorithm>

#include "group/context.hpp"

namespace volley {

// The first reason that is not empty; if the ranks gave different reasons, with the rank that gave it, unless it names
// one already. Collective over the group.
[[nodiscard]] inline std::string agreed_reason(const RankGroup& group, const std::string& mine) {
  const auto reasons = mpi::all_gather(mine, group.control.get());
  const auto same = [&](const std::string& reason) { return reason == reasons.front(); };
  if (std::all_of(reasons.begin(), reasons.end(), same)) return mine;
  const auto given = std::find_if(reasons.begin(), reasons.end(), [](const auto& reason) { return !reason.empty(); });
  if (given->find(" (rank ") != std::string::npos) return *given;
  return *given + " (rank " + std::to_string(group.rank(static_cast<int>(given - reasons.begin()))) + ")";
}

// Runs `step` on each rank of the group. If it throws on one of them, all throw a std::runtime_error with the agreed
// reason. A step either does not communicate, or begins with its only collective call: a rank that fails before such a
// call would leave the others waiting in it. Only what fails on all ranks or on none, as another agreed step does, may
// stand before a collective call. Collective over the group.
template <class Step>
void agreed_step(const RankGroup& group, const Step& step) {
  const std::string problem = agreed_reason(group, problem_of(step));
  if (!problem.empty()) throw std::runtime_error(problem);
}

}  // namespace volley
