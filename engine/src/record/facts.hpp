// Facts as JSON: what ranks tell each other, and what the run record says.
#pragma once

#include <string>

#include "../context.hpp"
#include "../transport/registry.hpp"
#include "json.hpp"
#include "plan.hpp"

namespace volley {

inline constexpr int record_version = 1;

[[nodiscard]] Json to_json(const gpu::Device& device);
[[nodiscard]] Json to_json(const RankFacts& facts);
[[nodiscard]] Json to_json(const Facts& facts);
[[nodiscard]] Json to_json(const Mismatch& mismatch);
[[nodiscard]] RankFacts rank_from_json(const Json& json);

// What the engine was built from, for the run record.
[[nodiscard]] Json engine_facts();

// The answer to --about: the same and every transport of the registry.
[[nodiscard]] Json about();

// The name and version of the MPI this was compiled against, e.g. "Open MPI 5.0.11".
[[nodiscard]] std::string mpi_built();

// The run record; `clock_read_s` as measured at the start.
[[nodiscard]] Json run_record(const Context& context, const Plan& plan, double clock_read_s);

// Whether this job can use the transport, and why not when `reason` is not empty.
[[nodiscard]] Json transport_record(const TransportEntry& entry, const std::string& reason, const Json& facts);

}  // namespace volley
