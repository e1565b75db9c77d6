// Cores: which of them this process may use, and how ranks are bound to them.
#pragma once

#include <pthread.h>

#include <optional>
#include <string>
#include <vector>

namespace volley {

// CPUs as bits of words, as in sched_getaffinity(2). A cpu_set_t has room for only 1,024.
using CpuMask = std::vector<unsigned long>;

[[nodiscard]] CpuMask mask_of(const std::vector<int>& cpus);
[[nodiscard]] std::vector<int> cpus_in(const CpuMask& mask);

[[nodiscard]] std::vector<int> allowed_cpus();

// The sockets (physical packages) of these CPUs, in order; empty if Linux reports none. `root` is "/" outside tests.
[[nodiscard]] std::vector<int> sockets_of(const std::vector<int>& cpus, const std::string& root = "/");

// The first hardware thread of each core among `cpus`, in their order.
[[nodiscard]] std::vector<int> first_threads(const std::vector<int>& cpus);

// Parses the kernel's list format, e.g. "0-3,8".
[[nodiscard]] std::vector<int> parse_cpu_list(const std::string& text);

// The CPUs near the device at this PCI address; empty if Linux does not report them.
[[nodiscard]] std::vector<int> cpus_near(const std::string& pci);

// Those of them that this process may run on.
[[nodiscard]] std::vector<int> allowed_cpus_near(const std::string& pci);

// Binds a thread, by default this one, to these CPUs. Returns whether the system did so.
bool bind_to_cpus(const std::vector<int>& cpus, pthread_t thread = pthread_self());

// Binds this thread to these CPUs, if there are any, until this object is destroyed.
class Binding {
 public:
  explicit Binding(const std::vector<int>& cpus);
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;
  ~Binding() { bind_to_cpus(before_); }

 private:
  std::vector<int> before_;
};

// Distributes the cores of a node over its ranks: one core for each rank, or with `share` an equal number. `near` has
// the CPUs near the device of each local rank. The ranks, in order, first get cores among these, then remaining ones.
// Empty if there are fewer cores than ranks.
[[nodiscard]] std::vector<std::vector<int>> distribute_cores(const std::vector<int>& cores,
                                                             const std::vector<std::vector<int>>& near, bool share);

// Binds this process to the cores that distribute_cores() gives to local rank `local_rank`, as their first hardware
// threads. Every rank of the node computes this separately; the results agree if `near` and the allowed CPUs are equal.
// Returns the CPUs that this process could use before and that no rank of the node is bound to. Returns nothing, and
// changes nothing, if there are fewer cores than ranks: then the system's scheduler distributes the ranks better.
std::optional<std::vector<int>> bind_to_cores(int local_rank, const std::vector<std::vector<int>>& near, bool share);

}  // namespace volley
