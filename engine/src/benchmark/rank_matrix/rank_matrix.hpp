// A matrix: every ordered pair of ranks, one pair at a time or all ranks at once.
#pragma once

#include "benchmark/run.hpp"
#include "group/context.hpp"
#include "measure/watchdog.hpp"
#include "record/plan.hpp"

namespace volley {

// Measures the plan's pairs and writes a record for each row. Every rank but the first holds no more than its own pair.
// Collective over the world.
void run_matrix(const Context& context, const Plan& plan, Records& records, Watchdog& watchdog);

}  // namespace volley
