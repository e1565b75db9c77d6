// Facts of the job as JSON, for the exchange between ranks and for the run record.
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

// What the engine was built from. `mpi_built` is none in the program without MPI.
[[nodiscard]] Json engine_facts(const std::optional<std::string>& mpi_built);

// When a start-up step was done, in seconds from the start of this process.
struct Startup {
  double main_s = 0;                 // the libraries are loaded
  double placed_s = 0;               // cores and GPU are chosen
  std::optional<double> mpi_s = {};  // MPI_Init; none in the program without MPI
  double plan_s = 0;                 // the plan is read
};

// The run record. `clock_read_s` was measured at the start; `mpi` is null in the program without MPI.
[[nodiscard]] Json run_record(const Job& job, const Plan& plan, double clock_read_s,
                              const std::optional<std::string>& mpi_built, const Json& mpi, const Startup& startup);

}  // namespace volley
