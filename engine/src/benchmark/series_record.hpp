// What was found of a series, as JSON.
#pragma once

#include "group/group.hpp"
#include "measure/series.hpp"
#include "record/json.hpp"
#include "record/records.hpp"

namespace volley {

[[nodiscard]] Json to_json(const Mismatch& mismatch);

// The record of a point between two ranks: the keys that all have, with those of the benchmark, `own`, between them.
[[nodiscard]] Json point_record(const char* record, const Group& pair, const Series& series, const Json& own);

// The cell of a matrix; `samples` keeps every sample.
[[nodiscard]] Json matrix_cell(const Series& series, bool samples);

// The row of a matrix: counts its cells, and writes `row`, its record, with them.
void write_row(Records& records, Json row, const Json& cells);

[[nodiscard]] Json optional_json(const std::optional<double>& value);

}  // namespace volley
