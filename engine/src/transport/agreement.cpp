#include <algorithm>

#include "mpi/mpi.hpp"
#include "transport/agreement.hpp"

namespace volley {

std::string agreed_reason(const RankGroup& group, const std::string& mine) {
  const auto reasons = mpi::all_gather(mine, group.control.get());
  const auto same = [&](const std::string& reason) { return reason == reasons.front(); };
  if (std::all_of(reasons.begin(), reasons.end(), same)) return mine;
  const auto given = std::find_if(reasons.begin(), reasons.end(), [](const auto& reason) { return !reason.empty(); });
  if (given->find(" (rank ") != std::string::npos) return *given;
  return *given + " (rank " + std::to_string(group.rank(static_cast<int>(given - reasons.begin()))) + ")";
}

SharedSegment make_pair_segment(const RankGroup& pair, std::size_t bytes,
                                const std::function<void(std::byte*)>& initialise) {
  SharedSegment segment;
  agreed_step(pair, [&] {
    if (!pair.leads()) return;
    segment = SharedSegment::create(bytes);
    initialise(segment.data());
  });
  const std::string name = mpi::broadcast(segment.name(), 0, pair.control.get());
  agreed_step(pair, [&] {
    if (!pair.leads()) segment = SharedSegment::open(name, bytes);
  });
  segment.unlink();
  return segment;
}

std::string on_two_nodes(const Context& context, const RankGroup& pair, const std::string& consequence) {
  const RankFacts& first = context.facts(pair.rank(0));
  const RankFacts& second = context.facts(pair.rank(1));
  if (first.node == second.node) return {};
  return "the ranks are on two nodes, " + first.host + " and " + second.host + ", " + consequence;
}

}  // namespace volley
