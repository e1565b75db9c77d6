// Who takes part and where: ranks, nodes, devices, placement. Made once (where there is MPI, after MPI_Init), then
// passed, never global.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/gpu.hpp"
#include "handles/communicator.hpp"
#include "options.hpp"

namespace volley {

struct RankFacts {
  int rank = 0;
  std::string host;
  int node = 0;
  int local_rank = 0;
  std::int64_t pid = 0;
  std::vector<int> cores;
  std::vector<int> sockets;  // processors that those cores belong to
  std::string bound_by;      // engine, launcher or nobody
  std::string cpu;
  std::uint64_t memory_available_bytes = 0;
  std::optional<gpu::Device> device;
};

// Whether both have a device, and it is one.
[[nodiscard]] bool same_device(const RankFacts& one, const RankFacts& other);

// The first two ranks of a node that the engine bound to one core.
[[nodiscard]] std::optional<std::array<int, 2>> bound_to_one_core(const std::vector<RankFacts>& ranks);

// What was settled before MPI_Init; confirmed by `make_context`.
struct Placement {
  int local_rank = 0;
  bool bound = false;
  gpu::Presence gpus;
  std::optional<int> device;  // device of this rank, selected already
  std::string refusal;        // what makes no sense; said after MPI_Init, where the whole job can be ended
};

// Chooses this process's cores (when asked to bind) and device from the launcher's variables. Before MPI_Init.
[[nodiscard]] Placement place(const Options& options);

struct Context {
  Communicator world;  // for agreements; never inside a timed region
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;  // ranks on this node
  gpu::Presence gpus;
  std::vector<RankFacts> ranks;  // of every rank, in order
};

// Gathers every rank's facts. Collective over MPI_COMM_WORLD.
[[nodiscard]] Context make_context(const Options& options, const Placement& placement);

// The same where this process is the whole job, and MPI is not started.
[[nodiscard]] Context make_context_alone(const Placement& placement);

// Two endpoints and the communicators that only they use.
struct Pair {
  Communicator data;           // messages that are measured
  Communicator control;        // agreements outside the timed region
  std::array<int, 2> ranks{};  // world ranks of the first and the second
  int self = 0;                // 0: first, leads and times; 1: second
  int peer = 1;
  [[nodiscard]] bool leads() const { return self == 0; }
  // One rank has both endpoints: there is nobody to agree with.
  [[nodiscard]] bool alone() const { return self == peer; }
};

// The pair of world ranks `first` and `second`; other ranks get nothing. Collective over the world.
[[nodiscard]] std::optional<Pair> make_pair(const Context& context, int first, int second);

// The same, agreed by the two alone. Collective over the two.
[[nodiscard]] Pair make_pair_alone(const Context& context, int first, int second);

// Many pairs at once: each rank names the pair that it belongs to, or none. Collective over the world.
[[nodiscard]] std::optional<Pair> join_pair(const Context& context, const std::optional<std::array<int, 2>>& ranks);

}  // namespace volley
