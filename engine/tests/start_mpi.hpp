// Starts MPI in a test, with the library that with_mpi.py names.
#pragma once

#include <cstdlib>

#include "mpi/mpi.hpp"

inline void start_mpi(bool threads = false) {
  const char* library = std::getenv("VOLLEY_MPI_LIBRARY");
  if (library == nullptr) throw std::runtime_error("start this with engine/tests/with_mpi.py");
  volley::load_mpi(library);
  int provided = 0;
  VOLLEY_MPI(volley::MPI_Init_thread(nullptr, nullptr,
                                     threads ? volley::MPI_THREAD_MULTIPLE : volley::MPI_THREAD_FUNNELED, &provided));
}
