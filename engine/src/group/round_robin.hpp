// Round-robin scheduling of pairs of ranks.
#pragma once

namespace volley {

// The number of rounds in which each rank meets every other rank once: ranks - 1, or ranks if that is odd.
[[nodiscard]] int rounds_of(int ranks);

// The rank that `rank` meets in `round` (from 0). -1 if `rank` is idle: if the number of ranks is odd, one is idle in
// each round.
[[nodiscard]] int partner_of(int ranks, int round, int rank);

}  // namespace volley
