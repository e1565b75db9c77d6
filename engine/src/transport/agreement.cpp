#include "transport/agreement.hpp"

#include <algorithm>

#include "mpi/collectives.hpp"

namespace volley {

std::string agreed_reason(const RankGroup& group, const std::string& mine) {
  const auto reasons = mpi::all_gather(mine, group.control.get());
  const auto same = [&](const std::string& reason) { return reason == reasons.front(); };
  if (std::all_of(reasons.begin(), reasons.end(), same)) return mine;
  const auto given = std::find_if(reasons.begin(), reasons.end(), [](const auto& reason) { return !reason.empty(); });
  if (given->find(" (rank ") != std::string::npos) return *given;
  return *given + " (rank " + std::to_string(group.rank(static_cast<int>(given - reasons.begin()))) + ")";
}

}  // namespace volley
