// Which pairs of ranks measure at the same time: rounds in which each two ranks meet once in each direction.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace volley {

// The circle method (E. Lucas, Récréations mathématiques II, 1883, after Walecki): an odd number of seats stand in a
// circle that turns; in round r, seats i and j meet if i + j = r modulo the number of seats. One seat is opposite
// itself: it meets the rank outside of the circle, or is idle if there is none.
inline int seats_of(int ranks) { return ranks % 2 == 0 ? ranks - 1 : ranks; }

// The number of rounds in which each rank meets every other rank once: ranks - 1, or ranks if that is odd.
[[nodiscard]] inline int rounds_of(int ranks) { return seats_of(ranks); }

// The rank that `rank` meets in `round` (from 0). -1 if `rank` is idle, as one of an odd number of ranks is.
[[nodiscard]] inline int partner_of(int ranks, int round, int rank) {
  const int seats = seats_of(ranks);
  // The rank outside of the circle meets seat r / 2, where the division is modulo the odd number of seats.
  if (rank == seats) return static_cast<int>(std::int64_t{round} * (seats + 1) / 2 % seats);
  const int opposite = (round - rank + seats) % seats;
  if (opposite != rank) return opposite;
  return ranks % 2 == 0 ? seats : -1;
}

using RankPair = std::array<int, 2>;
constexpr RankPair nobody{-1, -1};

// Groups of ranks, of each of which one pair at a time measures: nodes, or single ranks.
struct Parties {
  std::vector<int> of;  // the party of each rank
  std::vector<std::vector<int>> ranks;
  int largest = 0;

  explicit Parties(std::vector<int> party_of_rank) : of(std::move(party_of_rank)) {
    for (std::size_t rank = 0; rank < of.size(); ++rank) {
      const auto party = static_cast<std::size_t>(of[rank]);
      if (ranks.size() <= party) ranks.resize(party + 1);
      ranks[party].push_back(static_cast<int>(rank));
      largest = std::max(largest, static_cast<int>(ranks[party].size()));
    }
  }

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  // A rank by its place in its party; -1 if there is none.
  [[nodiscard]] int rank(int party, int place) const {
    const auto& those = ranks[static_cast<std::size_t>(party)];
    return place < static_cast<int>(those.size()) ? those[static_cast<std::size_t>(place)] : -1;
  }
};

// Pairs that measure at the same time: one of each two parties that meet in a round of their round robin, or one of
// each party.
struct Round {
  int number = 0;     // of the round robin; -1: within the parties
  int low = 0;        // the place of the rank in the party with the lower number
  int high = 0;       // the place in the other one
  bool back = false;  // the latter is the first of the pair

  [[nodiscard]] RankPair ends(const Parties& parties, int rank) const {  // the pair of this rank; nobody if it is idle
    const int own = parties.of[static_cast<std::size_t>(rank)];
    const int other = number < 0 ? own : partner_of(parties.size(), number, own);
    if (other < 0) return nobody;
    const int one = parties.rank(std::min(own, other), low);
    const int two = parties.rank(std::max(own, other), high);
    if (one < 0 || two < 0 || (one != rank && two != rank)) return nobody;
    return back ? RankPair{two, one} : RankPair{one, two};
  }
};

// The rounds in which every rank meets every other rank once in each direction.
[[nodiscard]] inline std::vector<Round> all_rounds_of(const Parties& parties) {
  std::vector<Round> rounds;
  const auto add = [&](int number, int low, int high) {
    for (const bool back : {false, true}) rounds.push_back({number, low, high, back});
  };
  for (int low = 0; low < parties.largest; ++low) {
    for (int high = low + 1; high < parties.largest; ++high) add(-1, low, high);
    for (int high = 0; high < parties.largest && parties.size() > 1; ++high) {
      for (int number = 0; number < rounds_of(parties.size()); ++number) add(number, low, high);
    }
  }
  return rounds;
}

}  // namespace volley
