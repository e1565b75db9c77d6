// Facts of the job as JSON: those exchanged between ranks, and the run record.
#pragma once

#include <optional>
#include <string>

#include "group/job.hpp"
#include "host/usage.hpp"
#include "record/json.hpp"
#include "record/plan.hpp"

namespace volley {

[[nodiscard]] Json to_json(const gpu::Device& device);
[[nodiscard]] Json to_json(const RankFacts& facts);
[[nodiscard]] Json to_json(const Usage& usage, int rank);
[[nodiscard]] RankFacts rank_from_json(const Json& json);

// What the engine was built from; no `mpi_built` where none takes part.
[[nodiscard]] Json engine_facts(const std::optional<std::string>& mpi_built);

// The run record; `clock_read_s` as measured at the start, `mpi` as the library answers, null where none takes part.
[[nodiscard]] Json run_record(const Job& job, const Plan& plan, double clock_read_s,
                              const std::optional<std::string>& mpi_built, const Json& mpi);

}  // namespace volley
