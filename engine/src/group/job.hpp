// The processes of a job as each of them knows them: who, where, with which cores and device. What joins them is in
// context.hpp; a process that is the whole job has no need of it.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "base/command_line.hpp"
#include "gpu/gpu.hpp"

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
  bool device_chosen_late = false;  // after MPI_Init, since no variable of the launcher said the local rank
};

// True if both have the same device.
[[nodiscard]] bool same_device(const RankFacts& one, const RankFacts& other);

// The first two ranks of a node that the engine bound to one core.
[[nodiscard]] std::optional<std::array<int, 2>> bound_to_one_core(const std::vector<RankFacts>& ranks);

// The placement determined before MPI_Init; `make_context` checks it.
struct Placement {
  std::optional<int> local_rank;  // as far as the launcher says
  bool bound = false;
  gpu::Presence gpus;
  std::optional<int> device;  // device of this rank
  bool device_chosen_late = false;
  std::exception_ptr problem;  // what went wrong; thrown after MPI_Init, where the whole job can be ended
};

// Chooses this process's cores (when asked to bind) and device from the launcher's variables. Before MPI_Init.
[[nodiscard]] Placement place(const Options& options);

// The device of a local rank: as --gpus says, else the tutorial's local rank % devices. None where CUDA sees none.
[[nodiscard]] std::optional<int> device_of(int local_rank, const Options& options, const gpu::Presence& gpus);

// Makes the device of this local rank the current one.
void choose_device(Placement& placement, const Options& options, int local_rank);

struct Job {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;  // ranks on this node
  gpu::Presence gpus;
  std::vector<RankFacts> ranks;  // of every rank, in order
};

// This process as a rank of `job` on node number `node`.
[[nodiscard]] RankFacts facts_of(const Job& job, const Placement& placement, int node);

// A job of this process alone. It binds no cores and makes no device current.
[[nodiscard]] Job make_local_job();

}  // namespace volley
