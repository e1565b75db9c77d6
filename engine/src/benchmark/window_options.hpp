// The options `window` and `direction` of several benchmarks.
#pragma once

#include "measure/driver.hpp"
#include "record/plan.hpp"

namespace volley {

// MPI needs a request for each message of a window; src/volley/units.py has the same bound.
inline constexpr int largest_window = 1 << 20;

inline void read_window(PlanObject& options, Window& window) {
  options.integer("window", window.messages, 1, largest_window);
  options.choice("direction", window.direction, {{"uni", Direction::uni}, {"bi", Direction::bi}});
}

}  // namespace volley
