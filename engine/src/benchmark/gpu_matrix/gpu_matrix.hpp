// The benchmark `gpu_matrix`: every ordered pair of this machine's GPUs, owned by this one process. A record for the
// GPUs, then one for each row of each section.
#pragma once

#include "benchmark/benchmark.hpp"

namespace volley {

[[nodiscard]] std::unique_ptr<Benchmark> make_gpu_matrix();

}  // namespace volley
