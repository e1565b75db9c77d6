// The launcher's environment variables, read before MPI_Init.
#pragma once

#include <optional>
#include <string_view>

namespace volley {

// As far as the launcher says.
struct LaunchEnvironment {
  std::optional<int> local_rank;
  std::optional<int> local_size;
  std::optional<int> world_size;
};

// Reads the variables of Open MPI, MPICH (hydra), MVAPICH, PALS, Flux, Slurm, PMIx, LSF's jsrun and PMI, in that order.
[[nodiscard]] LaunchEnvironment launch_environment();

// The tasks of node number `node` in Slurm's list of them, e.g. "2(x3),1": three nodes of two, then one of one
// (srun(1), SLURM_STEP_TASKS_PER_NODE). None if the list is too short or invalid.
[[nodiscard]] std::optional<int> tasks_on_node(std::string_view list, int node);

}  // namespace volley
