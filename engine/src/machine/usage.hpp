// What the system did with the measuring thread: processor time, switches, page faults, time of a hypervisor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace volley {

// Counters that only grow. The difference of two readings is what happened between them.
struct Usage {
  double elapsed_s = 0;
  double cpu_s = 0;                      // of the calling thread, user and system
  double other_threads_cpu_s = 0;        // of all other threads of the process
  std::uint64_t voluntary_switches = 0;  // the thread waited, and another one ran
  std::uint64_t involuntary_switches = 0;
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
  std::uint64_t steal_ticks = 0;  // a hypervisor ran something else on the CPUs
  std::uint64_t total_ticks = 0;  // of those CPUs, idle or not; 0 if Linux does not report it
};

// Reads the counters of the calling thread (getrusage(2)), and of these CPUs (proc_stat(5)). `root`: "/" outside tests.
[[nodiscard]] Usage usage_now(const std::vector<int>& cpus, const std::string& root = "/");

[[nodiscard]] Usage operator-(const Usage& later, const Usage& earlier);

// Seconds since Linux started this process, to a hundredth; 0 if /proc does not say.
[[nodiscard]] double process_age_s(const std::string& root = "/");

}  // namespace volley
