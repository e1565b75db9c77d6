// What was found at a series, as JSON.
#pragma once

#include "group/group.hpp"
#include "measure/series.hpp"
#include "record/json.hpp"
#include "record/plan.hpp"

namespace volley {

[[nodiscard]] const char* name_of(Direction direction);

// A point between the row's rank and rank `second`, as the cell of a matrix; `samples` keeps them all.
[[nodiscard]] Json matrix_cell(const Series& series, int second, bool samples);

// The series's record for the benchmark of the plan; see src/volley/records/points.py.
[[nodiscard]] Json point_record(const Plan& plan, const Group& pair, const Series& series);

[[nodiscard]] Json to_json(const Mismatch& mismatch);

}  // namespace volley
