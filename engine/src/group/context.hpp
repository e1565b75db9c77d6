// The ranks of the job, with their nodes, devices and placement. Made once after MPI_Init.
#pragma once

#include <optional>
#include <vector>

#include "group/group.hpp"
#include "group/job.hpp"
#include "mpi/communicator.hpp"

namespace volley {

struct Context : Job {
  Communicator world;  // never used inside a timed region
};

// Gathers the facts of all ranks. If the launcher gave no local rank, this chooses the device by MPI's local rank.
// Collective over MPI_COMM_WORLD.
[[nodiscard]] Context make_context(const Options& options, Placement placement);

// A group, with communicators of its ranks.
struct RankGroup : Group {
  Communicator data;     // for measured messages
  Communicator control;  // for everything outside the timed region
};

// The group of these world ranks, in this order; none on other ranks. Collective over these ranks only.
[[nodiscard]] std::optional<RankGroup> make_group(const Context& context, const std::vector<int>& ranks);

}  // namespace volley
