// What was found at a point, as JSON.
#pragma once

#include "../job.hpp"
#include "../measure/point.hpp"
#include "json.hpp"
#include "plan.hpp"

namespace volley {

[[nodiscard]] const char* name_of(Direction direction);

// A point between the row's rank and rank `second`, as the cell of a matrix; `samples` keeps them all.
[[nodiscard]] Json matrix_cell(const Point& point, int second, bool samples);

// The point's record for the benchmark of the plan; see src/volley/records/points.py.
[[nodiscard]] Json point_record(const Plan& plan, const Endpoints& pair, const Point& point);

}  // namespace volley
