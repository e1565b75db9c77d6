// The processes of a job, as each of them knows them: host, cores, device. Without MPI; context.hpp adds communicators.
#pragma once

#include <algorithm>
#include <exception>

#include "base/command_line.hpp"
#include "gpu/gpu.hpp"
#include "machine/placement.hpp"
#include "machine/usage.hpp"
#include "record/json.hpp"
#include "record/plan.hpp"

namespace volley {

struct RankFacts {
  int rank = 0;
  std::string host;
  int node = 0;
  std::vector<int> cores;
  std::string bound_by;  // engine, launcher or nobody
  std::optional<gpu::Device> device;
};

// What is wrong if the engine bound two ranks of a node to one core; else empty. Each rank computes the distribution of
// its node's cores; the results differ if the ranks see different devices or cores.
[[nodiscard]] std::string shared_core(const std::vector<RankFacts>& ranks);

// The placement of this process, determined before MPI_Init; make_context() checks it.
struct Placement {
  std::optional<int> local_rank = {};  // none if the launcher does not give it
  bool bound = false;                  // by the engine
  RankCpus cpus;
  gpu::Presence gpus = {};
  std::optional<int> device = {};
  // After MPI_Init: as asked, or because no variable of the launcher gave the local rank.
  bool device_chosen_late = false;
  std::exception_ptr problem = {};  // make_context() throws it: after MPI_Init the whole job can be ended
};

// Before MPI_Init: chooses the CPUs of this rank (if the options say so) and its device, by launcher variables. From
// then on this thread may use the CPUs of libraries; make_context() leaves it those of the measuring thread.
[[nodiscard]] Placement place(const Options& options);

// The device of a local rank: the one that --gpus names, else local rank % devices, as in the tutorial. None without
// devices.
[[nodiscard]] std::optional<int> device_of(int local_rank, const Options& options, const gpu::Presence& gpus);

void choose_device(Placement& placement, const Options& options, int local_rank);

struct Job {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;  // ranks on this node
  gpu::Presence gpus;
  RankCpus cpus;
  std::vector<Json> records;  // of every rank, for the run record; on the first rank
  // Of the other ranks a rank knows little: there may be thousands.
  std::vector<int> node_of;           // of every rank, in order
  std::vector<int> gpu_of;            // of every rank: those with one number share a GPU; -1: it has none
  std::vector<std::string> hosts;     // of every node
  std::vector<RankFacts> neighbours;  // the ranks of this node
  [[nodiscard]] int node(int of) const { return node_of[static_cast<std::size_t>(of)]; }
  [[nodiscard]] int gpu(int of) const { return gpu_of[static_cast<std::size_t>(of)]; }
  [[nodiscard]] const std::string& host(int of) const { return hosts[static_cast<std::size_t>(node(of))]; }
  [[nodiscard]] const RankFacts& facts(int of) const {  // of a rank of this node
    return *std::ranges::find(neighbours, of, &RankFacts::rank);
  }
  // Numbers the GPUs of all ranks and names the hosts of all nodes; both in the order of the ranks.
  void take_places(const std::vector<RankFacts>& all);
  // What messages call these ranks: "rank 3", "pair 3-7", "16 ranks"; on several nodes "pair 3-7 (cn003, cn007)".
  [[nodiscard]] std::string name_of(const std::vector<int>& those) const;
};

// What the run record says of this rank, and the facts of a rank in such a record.
[[nodiscard]] Json own_facts(const Job& job, const Placement& placement);
[[nodiscard]] RankFacts facts_in(const std::string& record);

// A job that consists of this process. Does not bind cores and makes no device current.
[[nodiscard]] Job make_local_job();

[[nodiscard]] Json to_json(const gpu::Device& device);
[[nodiscard]] Json to_json(const Usage& usage, int rank);

// What the engine was built from.
[[nodiscard]] Json engine_facts();

// When a start-up step was done, in seconds from the start of this process.
struct Startup {
  double main_s = 0;                 // the libraries are loaded
  double placed_s = 0;               // cores and GPU are chosen
  std::optional<double> mpi_s = {};  // MPI_Init; none without MPI
  double plan_s = 0;                 // the plan is read
};

// The run record. `clock_read_s` was measured at the start; `mpi` is null without MPI.
[[nodiscard]] Json run_record(const Job& job, const Plan& plan, double clock_read_s, const Json& mpi,
                              const Startup& startup);

}  // namespace volley
