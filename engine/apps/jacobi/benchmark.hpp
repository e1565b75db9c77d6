// The benchmark `jacobi`: Laplace's equation on a grid of processes, with the halos of each transport of the plan.
#pragma once

#include "benchmark/run.hpp"

namespace volley {

// Writes the transports' records and one `jacobi` record each. Collective over the world.
[[nodiscard]] Exit run_jacobi(const Context& context, const Plan& plan, Records& records, Watchdog& watchdog);

}  // namespace volley
