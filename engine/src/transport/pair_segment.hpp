// A segment of host memory that both ranks of a pair map.
#pragma once

#include <cstddef>
#include <functional>

#include "group/rank_group.hpp"
#include "host/shared_segment.hpp"

namespace volley {

// The first rank creates the segment and calls `initialise` with it, the second maps it; then the segment's name is
// removed. Both throw a std::runtime_error if one of them fails. Collective over the pair.
[[nodiscard]] SharedSegment make_pair_segment(const RankGroup& pair, std::size_t bytes,
                                              const std::function<void(std::byte*)>& initialise);

// Why the two ranks share no memory: they are on two nodes. Empty if they are on one. `consequence` ends the sentence.
[[nodiscard]] std::string on_two_nodes(const Context& context, const RankGroup& pair, const std::string& consequence);

}  // namespace volley
