// Facts as JSON: what ranks tell each other, and what the run record says.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "../job.hpp"
#include "../measure/pattern.hpp"
#include "../transport/entry.hpp"
#include "../transport/facts.hpp"
#include "json.hpp"
#include "plan.hpp"

namespace volley {

inline constexpr int record_version = 1;

[[nodiscard]] Json to_json(const gpu::Device& device);
[[nodiscard]] Json to_json(const RankFacts& facts);
[[nodiscard]] Json to_json(const Facts& facts);
[[nodiscard]] Json to_json(const Mismatch& mismatch);
[[nodiscard]] RankFacts rank_from_json(const Json& json);

// The MPI of an engine that has one.
struct MpiFacts {
  std::string built;     // what this was compiled against, e.g. "Open MPI 5.0.11"
  std::string library;   // what answers, in its own words
  std::string standard;  // e.g. "3.1"
  std::optional<bool> cuda_query;
};

// The answer to --about: what the engine was built from, its transports, and the sections of a node's matrices.
[[nodiscard]] Json about(const std::string& mpi_built, std::span<const TransportEntry> transports);

// The run record; `clock_read_s` as measured at the start, no `mpi` where none takes part.
[[nodiscard]] Json run_record(const Job& job, const Plan& plan, double clock_read_s,
                              const std::optional<MpiFacts>& mpi);

// Whether this job can use the transport, and why not when `reason` is not empty.
[[nodiscard]] Json transport_record(const TransportEntry& entry, const std::string& reason, const Json& facts);

}  // namespace volley
