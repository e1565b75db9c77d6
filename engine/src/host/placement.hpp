// The placement of this process: determined before MPI_Init, checked against MPI afterwards.
#pragma once

#include <string>
#include <vector>

namespace volley {

// CPUs as bits of words, as sched_getaffinity(2) has them. A cpu_set_t has no room for more than 1,024.
using CpuMask = std::vector<unsigned long>;

[[nodiscard]] CpuMask mask_of(const std::vector<int>& cpus);
[[nodiscard]] std::vector<int> cpus_in(const CpuMask& mask);

// Logical CPUs that this process may run on now.
[[nodiscard]] std::vector<int> allowed_cpus();

// The sockets (physical packages) of these CPUs, in order; empty where Linux does not say.
[[nodiscard]] std::vector<int> sockets_of(const std::vector<int>& cpus);

// The first hardware thread of each core among `cpus`, in their order.
[[nodiscard]] std::vector<int> first_threads(const std::vector<int>& cpus);

// Parses the kernel's list format, e.g. "0-3,8".
[[nodiscard]] std::vector<int> parse_cpu_list(const std::string& text);

// The CPUs near the device at this PCI address; empty if the kernel does not know them.
[[nodiscard]] std::vector<int> cpus_near(const std::string& pci);

// Distributes the cores of a node over its ranks: one core for each rank, or with `share` an equal number. No core is
// given twice. `near` has the CPUs near the device of each local rank: each rank, in order, first gets cores among
// these, then remaining ones. Empty if there are fewer cores than ranks.
[[nodiscard]] std::vector<std::vector<int>> deal_cores(const std::vector<int>& cores,
                                                       const std::vector<std::vector<int>>& near, bool share);

// Restricts this process to what deal_cores gives local rank `local_rank` of the first hardware threads that it may
// run on. Every rank of the node computes this separately; the results agree if `near` and the allowed CPUs are equal.
// Returns false and changes nothing if there are fewer cores than ranks: then the scheduler of the system distributes
// the ranks better.
bool bind_to_cores(int local_rank, const std::vector<std::vector<int>>& near, bool share);

}  // namespace volley
