// The results of a series as JSON.
#pragma once

#include "measure/series.hpp"
#include "record/records.hpp"

namespace volley {

[[nodiscard]] Json to_json(const Mismatch& mismatch);

// The record of a point: the keys that all benchmarks have, and those of this benchmark, `own`, between them.
[[nodiscard]] Json point_record(const char* record, const std::vector<int>& ranks, const Series& series,
                                const Json& own);

// The cell of a matrix; `samples` keeps every sample.
[[nodiscard]] Json matrix_cell(const Series& series, bool samples);

void write_row(Records& records, Json row, const Json& cells);

}  // namespace volley
