#include "transport/pair_segment.hpp"

#include "mpi/collectives.hpp"
#include "transport/agreement.hpp"

namespace volley {

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
