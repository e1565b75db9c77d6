// What the launcher's environment variables say before MPI_Init.
#pragma once

#include <cstdlib>
#include <initializer_list>
#include <optional>

#include "base/text.hpp"

namespace volley {

// Each is none if the launcher does not set it.
struct LaunchEnvironment {
  std::optional<int> local_rank;
  std::optional<int> local_size;
  std::optional<int> world_size;
};

inline std::optional<int> number_from(std::initializer_list<const char*> variables) {
  for (const char* name : variables) {
    const char* text = std::getenv(name);
    const auto value = text == nullptr ? std::nullopt : parse_number(text);
    if (value) return value;
  }
  return std::nullopt;
}

// The number of tasks on node number `node`, from Slurm's list, e.g. "2(x3),1": two on each of three nodes, then one
// (srun(1), SLURM_STEP_TASKS_PER_NODE). None if the list is too short or invalid.
[[nodiscard]] inline std::optional<int> tasks_on_node(std::string_view list, int node) {
  for (auto entry : split(list, ',')) {
    std::optional<int> nodes = 1;
    if (const auto times = entry.find("(x"); times != std::string_view::npos) {
      if (!entry.ends_with(')')) return std::nullopt;
      nodes = parse_number(entry.substr(times + 2, entry.size() - times - 3));
      entry = entry.substr(0, times);
    }
    if (!nodes) return std::nullopt;
    if (node < *nodes) return parse_number(entry);
    node -= *nodes;
  }
  return std::nullopt;
}

// Not SLURM_NTASKS_PER_NODE: that is what the user requested for the job, and a step may have fewer ranks.
inline std::optional<int> local_size_by_slurm() {
  const char* list = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  const auto node = number_from({"SLURM_NODEID"});
  return list != nullptr && node ? tasks_on_node(list, *node) : std::nullopt;
}

inline std::optional<int> local_size() {
  const auto by_mpirun =
      number_from({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE", "PALS_LOCAL_SIZE"});
  const auto known = by_mpirun ? by_mpirun : local_size_by_slurm();
  return known ? known : number_from({"JSM_NAMESPACE_LOCAL_SIZE", "PMI_LOCAL_SIZE"});
}

// Reads the variables of Open MPI, MPICH (hydra), MVAPICH, PALS, Flux, Slurm, PMIx, LSF's jsrun and PMI, in that order.
[[nodiscard]] inline LaunchEnvironment launch_environment() {
  return {
      .local_rank = number_from({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK",
                                 "PALS_LOCAL_RANKID", "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID", "PMIX_LOCAL_RANK",
                                 "JSM_NAMESPACE_LOCAL_RANK", "PMI_LOCAL_RANK"}),
      .local_size = local_size(),
      .world_size = number_from({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "FLUX_JOB_SIZE",
                                 "SLURM_STEP_NUM_TASKS", "JSM_NAMESPACE_SIZE"}),
  };
}

}  // namespace volley
