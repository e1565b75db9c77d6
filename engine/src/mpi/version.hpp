// The MPI that the engine was compiled against, and the one that runs.
#pragma once

#include <optional>
#include <string>

#include "record/json.hpp"

namespace volley {

struct MpiFacts {
  std::string library;             // MPI_Get_library_version, first line
  std::string standard;            // e.g. "3.1"
  std::optional<bool> cuda_query;  // MPIX_Query_cuda_support; none where the library does not have it
};

// The name and version of the MPI that the engine was compiled against, e.g. "Open MPI 5.0.11".
[[nodiscard]] std::string mpi_built();

// What the library that runs reports about itself.
[[nodiscard]] MpiFacts mpi_facts();

// For the run record.
[[nodiscard]] Json to_json(const MpiFacts& mpi);

}  // namespace volley
