// A datatype for messages that an int cannot count. MPI_Send_c would do, but Open MPI 5.0 lacks it.
#pragma once

#include <mpi.h>

#include <cstddef>

#include "mpi/handle.hpp"

namespace volley {

using LargeDatatype = mpi::Handle<MPI_Datatype, MPI_Type_free>;

// One element of this type is `bytes` bytes.
[[nodiscard]] LargeDatatype large_datatype(std::size_t bytes);

}  // namespace volley
