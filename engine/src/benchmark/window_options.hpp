// The options `window` and `direction` of several benchmarks.
#pragma once

#include "measure/driver.hpp"
#include "record/plan_object.hpp"

namespace volley {

inline void read_window(PlanObject& options, Window& window) {
  options.integer("window", window.messages, 1);
  options.choice("direction", window.direction, {{"uni", Direction::uni}, {"bi", Direction::bi}});
}

}  // namespace volley
