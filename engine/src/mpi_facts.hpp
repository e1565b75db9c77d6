// Which MPI this was compiled against, and which one answers.
#pragma once

#include <string>

#include "record/facts.hpp"

namespace volley {

// The name and version of the MPI this was compiled against, e.g. "Open MPI 5.0.11".
[[nodiscard]] std::string mpi_built();

// The same, and what the library says of itself.
[[nodiscard]] MpiFacts mpi_facts();

}  // namespace volley
