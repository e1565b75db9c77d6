// The matrices of a node: every ordered pair of its GPUs, owned by this one process.
#pragma once

#include "../context.hpp"
#include "../measure/watchdog.hpp"
#include "../record/plan.hpp"
#include "run.hpp"

namespace volley {

// Throws Refusal where the plan names GPUs that CUDA does not show.
void check_node(const Context& context, const Plan& plan);

// Measures the plan's sections; a record for the GPUs, then one for each row.
[[nodiscard]] Exit run_node(const Context& context, const Plan& plan, Records& records, Watchdog& watchdog);

}  // namespace volley
