// Where this process runs: known and settled before MPI_Init, confirmed by MPI afterwards.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace volley {

// A launcher's variables for this process, as far as it sets them.
struct LauncherView {
  std::optional<int> local_rank;
  std::optional<int> local_size;
  std::optional<int> world_size;
};

// Reads the variables of Open MPI, MPICH (hydra), Slurm, PMIx and LSF's jsrun, in that order.
[[nodiscard]] LauncherView launcher_view();

// The tasks of node number `node` in Slurm's list of them, e.g. "2(x3),1": three nodes of two, then one of one
// (srun(1), SLURM_STEP_TASKS_PER_NODE). None where the list does not say.
[[nodiscard]] std::optional<int> tasks_on_node(std::string_view list, int node);

// Logical CPUs that this process may run on now.
[[nodiscard]] std::vector<int> allowed_cpus();

// The sockets (physical packages) of these CPUs, in order; empty where Linux does not say.
[[nodiscard]] std::vector<int> sockets_of(const std::vector<int>& cpus);

// The first hardware thread of each core among `cpus`, those in `near` first. Order is otherwise kept.
[[nodiscard]] std::vector<int> first_threads(const std::vector<int>& cpus, const std::vector<int>& near);

// Parses the kernel's list format, e.g. "0-3,8".
[[nodiscard]] std::vector<int> parse_cpu_list(const std::string& text);

// Restricts this process to one CPU for local rank `local_rank` of `local_size`, near the device at PCI address
// `near_pci` where one is given; with `share`, to an equal share of the cores. Returns false, and changes nothing, when
// there are fewer cores than ranks: an oversubscribed machine is better served by the scheduler.
bool bind_to_core(int local_rank, int local_size, const std::string& near_pci, bool share = false);

}  // namespace volley
