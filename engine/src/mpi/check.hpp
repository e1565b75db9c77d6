// Errors of MPI as exceptions that name the call and its place in the sources.
#pragma once

#include <mpi.h>

#include <source_location>

#include "base/errors.hpp"

namespace volley {

// Whether MPI calls can be made: between MPI_Init and MPI_Finalize.
[[nodiscard]] bool mpi_is_running();

// Throws std::runtime_error naming `call`, MPI's text for `status` and the place.
[[noreturn]] void fail_mpi(int status, const char* call, std::source_location where);

// Inline, so that a call inside a timed region costs one comparison.
inline void check_mpi(int status, const char* call, std::source_location where = std::source_location::current()) {
  if (status != MPI_SUCCESS) [[unlikely]]
    fail_mpi(status, call, where);
}

}  // namespace volley

// The macro exists to name the call in the message; everything else is a function.
#define VOLLEY_MPI(call) ::volley::check_mpi((call), #call)
