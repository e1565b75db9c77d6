// The two things that a pair of ranks can be timed at.
#pragma once

#include "measure/workload.hpp"
#include "record/plan.hpp"

namespace volley {

// Message there and back: latency is the half round trip.
[[nodiscard]] Workload pingpong_workload();

// A windowed flood, one way or both: seconds a window.
[[nodiscard]] Workload stream_workload(const Window& window);

}  // namespace volley
