// Which MPI this was compiled against, and which one answers.
#pragma once

#include <optional>
#include <string>

#include "record/json.hpp"

namespace volley {

struct MpiFacts {
  std::string built;     // what this was compiled against, e.g. "Open MPI 5.0.11"
  std::string library;   // what answers, in its own words
  std::string standard;  // e.g. "3.1"
  std::optional<bool> cuda_query;
};

// The name and version of the MPI this was compiled against, e.g. "Open MPI 5.0.11".
[[nodiscard]] std::string mpi_built();

// The same, and what the library says of itself.
[[nodiscard]] MpiFacts mpi_facts();

// For the run record.
[[nodiscard]] Json to_json(const MpiFacts& mpi);

}  // namespace volley
