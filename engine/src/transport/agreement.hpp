// What the two ranks of a pair tell each other before they exchange messages. Outside timed regions.
#pragma once

#include "group/agreement.hpp"

namespace volley {

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
