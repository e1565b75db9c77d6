// How many steps of a computation take as long as an exchange.
#pragma once

#include "benchmark/overlap/overlap_driver.hpp"
#include "measure/control.hpp"
#include "measure/watchdog.hpp"

namespace volley::overlap {

// The steps of a computation that take this long on the first rank, while the other one computes, too. Collective over
// the ends of `control`.
[[nodiscard]] std::uint64_t steps_for(Control& control, Watchdog& watchdog, OverlapDriver& alone, double wanted_s);

}  // namespace volley::overlap
