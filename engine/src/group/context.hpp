// The ranks of the job, with their nodes, devices and placement. Made once after MPI_Init.
#pragma once

#include "group/job.hpp"
#include "mpi/communicator.hpp"

namespace volley {

struct Context : Job {
  Communicator world;  // never used inside a timed region
};

// Gathers the facts of all ranks. If the launcher gave no local rank, this chooses the device by MPI's local rank.
// Throws AgreedUsageError with the usage error of the first rank whose placement has one, and if the ranks of the
// launcher are not in one MPI_COMM_WORLD or two were bound to one core. Collective over MPI_COMM_WORLD.
[[nodiscard]] Context make_context(const Options& options, Placement placement);

}  // namespace volley
