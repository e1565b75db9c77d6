// CPUs: which of them this process may use, and which thread of a rank may run where.
#pragma once

#include <pthread.h>

#include <map>
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

// The last-level caches of these CPUs, each as its first CPU, in order; empty if Linux reports none.
[[nodiscard]] std::vector<int> caches_of(const std::vector<int>& cpus, const std::string& root = "/");

// The NUMA nodes of these CPUs, likewise.
[[nodiscard]] std::vector<int> numa_nodes_of(const std::vector<int>& cpus, const std::string& root = "/");

// The CPUs that are hardware threads of one core with `cpu`, itself among them; `cpu` alone if Linux reports none.
[[nodiscard]] std::vector<int> siblings_of(int cpu, const std::string& root = "/");

// The first hardware thread of each core among `cpus`, in their order.
[[nodiscard]] std::vector<int> first_threads(const std::vector<int>& cpus, const std::string& root = "/");

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

// Where the threads of a rank run. A thread inherits the CPUs of the one that makes it: MPI, CUDA and transports are
// opened while the calling thread may use all of `libraries`. Threads of theirs that move data, as NCCL's and MPI's do
// on a network, would otherwise wait for a core on which the measuring thread never sleeps.
struct RankCpus {
  std::vector<int> measuring;  // the measuring thread: one core, or a share of the node's
  std::vector<int> libraries;  // every thread that a library makes: those above, and spare ones near them
  std::vector<int> spare;      // of the node: no rank measures there

  // No other thread has a CPU of its own: while a library's threads have work, the measuring thread must give way.
  [[nodiscard]] bool shared() const { return libraries.size() == 1; }
};

// The CPUs of a process that nobody binds: all that it may use.
[[nodiscard]] RankCpus unbound_cpus();

// The number of threads of this process, without the calling one, by their CPUs in the kernel's list format.
[[nodiscard]] std::map<std::string, int> cpus_of_other_threads();

// Distributes the cores of a node over its ranks: one core for each rank, or with `share` an equal number. `near` has
// the CPUs near the device of each local rank. The ranks, in order, first get cores among these, then remaining ones;
// CPU 0, which handles most interrupts, is taken last. Empty if there are fewer cores than ranks.
[[nodiscard]] std::vector<std::vector<int>> distribute_cores(std::vector<int> cores,
                                                             const std::vector<std::vector<int>>& near, bool share);

// The CPUs of local rank `local_rank`, of those in `allowed`. It measures on the cores that distribute_cores() gives
// it, on their first hardware threads. Spare are the CPUs of cores on which no rank measures, and only if there are
// none the other hardware threads of cores on which one does. Libraries get the spare CPUs of the NUMA nodes of `near`
// and of the measuring cores; if there are none there, all spare ones. Every rank of the node computes this separately;
// the results agree if `near` and `allowed` are equal. None if there are fewer cores than ranks: then the system's
// scheduler distributes the ranks better. `root` is "/" outside tests.
[[nodiscard]] std::optional<RankCpus> cpus_of_rank(int local_rank, const std::vector<int>& allowed,
                                                   const std::vector<std::vector<int>>& near, bool share,
                                                   const std::string& root = "/");

}  // namespace volley
