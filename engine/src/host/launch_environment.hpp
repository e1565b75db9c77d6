// What the launcher's environment variables say before MPI_Init.
#pragma once

#include <optional>
#include <string_view>

namespace volley {

// Each is none if the launcher does not set it.
struct LaunchEnvironment {
  std::optional<int> local_rank;
  std::optional<int> local_size;
  std::optional<int> world_size;
};

// Reads the variables of Open MPI, MPICH (hydra), MVAPICH, PALS, Flux, Slurm, PMIx, LSF's jsrun and PMI, in that order.
[[nodiscard]] LaunchEnvironment launch_environment();

// The number of tasks on node number `node`, from Slurm's list, e.g. "2(x3),1": two on each of three nodes, then one
// (srun(1), SLURM_STEP_TASKS_PER_NODE). None if the list is too short or invalid.
[[nodiscard]] std::optional<int> tasks_on_node(std::string_view list, int node);

}  // namespace volley
