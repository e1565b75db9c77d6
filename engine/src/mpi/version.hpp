// The MPI that the engine was compiled against, and the one that runs.
#pragma once

#include <string>

#include "record/json.hpp"

namespace volley {

// The name and version of the MPI that the engine was compiled against, e.g. "Open MPI 5.0.11".
[[nodiscard]] std::string mpi_built();

// What the library that runs reports about itself, for the run record.
[[nodiscard]] Json mpi_facts();

}  // namespace volley
