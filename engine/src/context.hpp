// Who takes part and where: ranks, nodes, devices, placement. Made once after MPI_Init, then passed, never global.
#pragma once

#include <array>
#include <optional>

#include "handles/communicator.hpp"
#include "job.hpp"

namespace volley {

struct Context : Job {
  Communicator world;  // for agreements; never inside a timed region
};

// Gathers every rank's facts. Collective over MPI_COMM_WORLD.
[[nodiscard]] Context make_context(const Options& options, const Placement& placement);

// Two endpoints and the communicators that only they use.
struct Pair : Endpoints {
  Communicator data;     // messages that are measured
  Communicator control;  // agreements outside the timed region
};

// The pair of world ranks `first` and `second`; other ranks get nothing. Collective over the world.
[[nodiscard]] std::optional<Pair> make_pair(const Context& context, int first, int second);

// The same, agreed by the two alone. Collective over the two.
[[nodiscard]] Pair make_pair_alone(const Context& context, int first, int second);

// Many pairs at once: each rank names the pair that it belongs to, or none. Collective over the world.
[[nodiscard]] std::optional<Pair> join_pair(const Context& context, const std::optional<std::array<int, 2>>& ranks);

}  // namespace volley
