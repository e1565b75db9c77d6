// The two things that a pair of ranks can be timed at.
#pragma once

#include "../measure/point.hpp"
#include "../record/plan.hpp"

namespace volley {

// Message there and back: latency is the half round trip.
[[nodiscard]] Exercise pingpong_exercise();

// A windowed flood, one way or both: seconds a window.
[[nodiscard]] Exercise stream_exercise(const Stream& stream);

}  // namespace volley
