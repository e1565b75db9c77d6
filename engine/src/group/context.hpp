// The ranks of the job, their nodes, devices and placement. Made once after MPI_Init, then passed, never global.
#pragma once

#include <optional>
#include <vector>

#include "group/group.hpp"
#include "group/job.hpp"
#include "mpi/communicator.hpp"

namespace volley {

struct Context : Job {
  Communicator world;  // for agreements; never inside a timed region
};

// Gathers every rank's facts. Where the launcher said no local rank, the device is chosen here, by MPI's. Collective
// over MPI_COMM_WORLD.
[[nodiscard]] Context make_context(const Options& options, Placement placement);

// A group and the communicators that only its ranks use.
struct RankGroup : Group {
  Communicator data;     // messages that are measured
  Communicator control;  // agreements outside the timed region
};

// The group of these world ranks, in this order; other ranks get nothing. Collective over the world.
[[nodiscard]] std::optional<RankGroup> make_group(const Context& context, const std::vector<int>& ranks);

// The same, agreed by its ranks alone. Collective over them.
[[nodiscard]] RankGroup make_group_within(const Context& context, const std::vector<int>& ranks);

// Many groups at once: each rank names the ranks of the group that it belongs to, or none. Collective over the world.
[[nodiscard]] std::optional<RankGroup> join_group(const Context& context, const std::vector<int>& ranks);

}  // namespace volley
