// The benchmark `jacobi`: Laplace's equation on a grid of processes, with the halos of each transport of the plan.
#pragma once

#include "benchmark/benchmark.hpp"

namespace volley {

[[nodiscard]] std::unique_ptr<Benchmark> make_jacobi();

}  // namespace volley
