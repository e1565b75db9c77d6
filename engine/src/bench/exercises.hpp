// The two things that a pair of ranks can be timed at.
#pragma once

#include "../measure/point.hpp"
#include "../record/json.hpp"
#include "../record/plan.hpp"

namespace volley {

// Message there and back: latency is the half round trip.
[[nodiscard]] Exercise pingpong_exercise();

// A windowed flood, one way or both: seconds a window.
[[nodiscard]] Exercise stream_exercise(const Stream& stream);

[[nodiscard]] const char* name_of(Direction direction);

// A point between the row's rank and rank `second`, as the cell of a matrix; `samples` keeps them all.
[[nodiscard]] Json matrix_cell(const Point& point, int second, bool samples);

// The point's record for the benchmark of the plan; see src/volley/records/points.py.
[[nodiscard]] Json point_record(const Plan& plan, const Pair& pair, const Point& point);

}  // namespace volley
