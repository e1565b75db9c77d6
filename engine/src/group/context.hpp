// The ranks of the job, with their nodes, devices and placement, made once after MPI_Init; and groups of them.
#pragma once

#include "group/job.hpp"
#include "mpi/mpi.hpp"

namespace volley {

struct Context : Job {
  Communicator world;  // never used inside a timed region
};

// Gathers the facts of all ranks. If the launcher gave no local rank, this chooses the device by MPI's local rank.
// Throws AgreedUsageError with the usage error of the first rank whose placement has one, and if the ranks of the
// launcher are not in one MPI_COMM_WORLD or two were bound to one core. Collective over MPI_COMM_WORLD.
[[nodiscard]] Context make_context(const Options& options, Placement placement);

// Ranks that communicate with each other, in an order of their own, by communicators of their own.
struct RankGroup {
  std::vector<int> ranks;    // their numbers in the world
  std::string name;          // for messages, see Job::name_of()
  int self = 0;              // the index of this rank in `ranks`
  bool shares_core = false;  // this rank's libraries have no CPU for their threads but the one that it measures on
  Communicator data;         // for measured messages
  Communicator control;      // for everything outside the timed region
  Communicator ring;         // for measured messages among neighbors, once make_ring() was called

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  // Puts the ranks in a ring: MPI then knows the one before each and the one after it as its neighbors. Collective.
  void make_ring();
  // The first rank leads, and times.
  [[nodiscard]] bool leads() const { return self == 0; }
  [[nodiscard]] int rank(int index) const { return ranks[static_cast<std::size_t>(index)]; }
  // The index of the other rank in a group of two; a rank alone is its own peer.
  [[nodiscard]] int peer() const { return size() == 1 ? self : 1 - self; }
};

// All ranks of the job. Collective.
[[nodiscard]] RankGroup everyone(const Context& context);

// A communicator of these world ranks, of which this one is one. Collective over these ranks only.
[[nodiscard]] Communicator make_communicator(const Context& context, const std::vector<int>& ranks);

// The group of these world ranks, in this order; none on other ranks. Collective over these ranks only.
[[nodiscard]] std::optional<RankGroup> make_group(const Context& context, const std::vector<int>& ranks);

}  // namespace volley
