// The matrices of a node: every ordered pair of its GPUs, owned by this one process.
#pragma once

#include "base/errors.hpp"
#include "group/job.hpp"
#include "measure/watchdog.hpp"
#include "record/plan.hpp"
#include "record/records.hpp"

namespace volley {

// Throws UsageError where the plan names GPUs that CUDA does not show.
void check_node(const Job& job, const Plan& plan);

// Measures the plan's sections; a record for the GPUs, then one for each row.
[[nodiscard]] Exit run_node(const Job& job, const Plan& plan, Records& records, Watchdog& watchdog);

}  // namespace volley
