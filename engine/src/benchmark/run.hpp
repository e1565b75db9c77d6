// A whole run of a plan: the records it writes, in order.
#pragma once

#include "base/errors.hpp"
#include "group/context.hpp"
#include "measure/watchdog.hpp"
#include "record/plan.hpp"
#include "record/records.hpp"

namespace volley {

// Does what the plan says and writes every record but the last. Collective over the world.
[[nodiscard]] Exit run_plan(const Context& context, const Plan& plan, Records& records, Watchdog& watchdog);

}  // namespace volley
