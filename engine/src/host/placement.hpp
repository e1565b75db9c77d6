// Where this process runs: known and settled before MPI_Init, confirmed by MPI afterwards.
#pragma once

#include <string>
#include <vector>

namespace volley {

// Logical CPUs that this process may run on now.
[[nodiscard]] std::vector<int> allowed_cpus();

// The sockets (physical packages) of these CPUs, in order; empty where Linux does not say.
[[nodiscard]] std::vector<int> sockets_of(const std::vector<int>& cpus);

// The first hardware thread of each core among `cpus`, in their order.
[[nodiscard]] std::vector<int> first_threads(const std::vector<int>& cpus);

// Parses the kernel's list format, e.g. "0-3,8".
[[nodiscard]] std::vector<int> parse_cpu_list(const std::string& text);

// The CPUs near the device at this PCI address, as far as the kernel knows any.
[[nodiscard]] std::vector<int> cpus_near(const std::string& pci);

// What each rank of a node has of the node's cores when all are dealt out: one, or with `share` an equal number. None
// is dealt twice. `near` has the CPUs near each local rank's device: first every rank, in order, takes what there is
// of them, then what is left. Empty where there are fewer cores than ranks.
[[nodiscard]] std::vector<std::vector<int>> deal_cores(const std::vector<int>& cores,
                                                       const std::vector<std::vector<int>>& near, bool share);

// Restricts this process to what deal_cores gives local rank `local_rank` of the first hardware threads that it may
// run on. Every rank of the node deals by itself, and comes to the same where `near` and the allowed CPUs are the same.
// Returns false, and changes nothing, when there are fewer cores than ranks: an oversubscribed machine is better served
// by the scheduler.
bool bind_to_cores(int local_rank, const std::vector<std::vector<int>>& near, bool share);

}  // namespace volley
