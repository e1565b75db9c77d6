// What ranks tell each other before they exchange messages: what one of them cannot do becomes known to all, so that
// none continues alone. Outside timed regions.
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

// Sends `mine` to the other rank and returns that rank's value. Collective over the pair.
template <class Value>
[[nodiscard]] Value exchanged_with_peer(const Value& mine, const RankGroup& pair) {
  static_assert(std::is_trivially_copyable_v<Value>);
  constexpr int tag = 2;
  constexpr int bytes = static_cast<int>(sizeof(Value));
  Value theirs;
  VOLLEY_MPI(MPI_Sendrecv(&mine, bytes, MPI_BYTE, pair.peer(), tag, &theirs, bytes, MPI_BYTE, pair.peer(), tag,
                          pair.control.get(), MPI_STATUS_IGNORE));
  return theirs;
}

// Why the two ranks share no memory: they are on two nodes. Empty if they are on one. `consequence` ends the sentence.
[[nodiscard]] inline std::string on_two_nodes(const Context& context, const RankGroup& pair,
                                              const std::string& consequence) {
  if (context.node(pair.rank(0)) == context.node(pair.rank(1))) return {};
  const std::string hosts = context.host(pair.rank(0)) + " and " + context.host(pair.rank(1));
  return "the ranks are on two nodes, " + hosts + ", " + consequence;
}

}  // namespace volley
