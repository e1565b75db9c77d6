// The benchmark `rank_matrix`: every ordered pair of ranks, one pair at a time or all ranks at once. A record for each
// row; every rank but the first holds no more than its own pair.
#pragma once

#include "benchmark/benchmark.hpp"

namespace volley {

[[nodiscard]] std::unique_ptr<Benchmark> make_rank_matrix();

}  // namespace volley
