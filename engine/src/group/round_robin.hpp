// Pairs of ranks by rounds (round-robin scheduling).
#pragma once

namespace volley {

// Rounds in which each of `ranks` meets each other one once: ranks - 1, or ranks where their number is odd.
[[nodiscard]] int rounds_of(int ranks);

// The rank that `rank` meets in `round` (from 0); -1 where it rests, as one does in each round of an odd number.
[[nodiscard]] int partner_of(int ranks, int round, int rank);

}  // namespace volley
