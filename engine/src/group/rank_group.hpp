// Some ranks of the job, with communicators of their own.
#pragma once

#include <optional>
#include <vector>

#include "group/context.hpp"

namespace volley {

// Ranks that communicate with each other, in an order of their own.
struct RankGroup {
  std::vector<int> ranks;  // their numbers in the world
  int self = 0;            // the index of this rank in `ranks`
  Communicator data;       // for measured messages
  Communicator control;    // for everything outside the timed region

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  // The first rank leads, and times.
  [[nodiscard]] bool leads() const { return self == 0; }
  [[nodiscard]] int rank(int index) const { return ranks[static_cast<std::size_t>(index)]; }
  // The index of the other rank in a group of two; a rank alone is its own peer.
  [[nodiscard]] int peer() const { return size() == 1 ? self : 1 - self; }
};

// All ranks of the job. Collective.
[[nodiscard]] RankGroup everyone(const Context& context);

// The group of these world ranks, in this order; none on other ranks. Collective over these ranks only.
[[nodiscard]] std::optional<RankGroup> make_group(const Context& context, const std::vector<int>& ranks);

}  // namespace volley
