#pragma once

#include <cstdint>

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

}  // namespace volley
