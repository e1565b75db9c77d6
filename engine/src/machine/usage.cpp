#include "machine/usage.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <fstream>
#include <sstream>

#include "base/clock.hpp"
#include "base/errors.hpp"

namespace volley {
namespace {

// The columns of a CPU in /proc/stat. The columns of guests follow; the first two include them.
enum Column { user, nice, system, idle, iowait, irq, softirq, steal, columns };

void add_ticks(Usage& usage, const std::vector<int>& cpus, const std::string& root) {
  std::ifstream file(root + "proc/stat");
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    int cpu = 0;
    const auto read = std::from_chars(line.data() + 3, line.data() + line.size(), cpu);
    if (read.ec != std::errc{} || std::find(cpus.begin(), cpus.end(), cpu) == cpus.end()) continue;
    std::istringstream rest(read.ptr);
    std::array<std::uint64_t, columns> ticks{};
    for (auto& each : ticks) rest >> each;
    usage.steal_ticks += ticks[steal];
    for (const auto each : ticks) usage.total_ticks += each;
  }
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

Usage usage_now(const std::vector<int>& cpus, const std::string& root) {
  rusage thread{}, process{};
  check_system(getrusage(RUSAGE_THREAD, &thread) == 0 && getrusage(RUSAGE_SELF, &process) == 0, "getrusage");
  const auto cpu_s_of = [](const rusage& used) { return seconds_of(used.ru_utime) + seconds_of(used.ru_stime); };
  Usage usage{.elapsed_s = std::chrono::duration<double>(Clock::now().time_since_epoch()).count(),
              .cpu_s = cpu_s_of(thread),
              .other_threads_cpu_s = std::max(0.0, cpu_s_of(process) - cpu_s_of(thread)),
              .voluntary_switches = static_cast<std::uint64_t>(thread.ru_nvcsw),
              .involuntary_switches = static_cast<std::uint64_t>(thread.ru_nivcsw),
              .minor_faults = static_cast<std::uint64_t>(thread.ru_minflt),
              .major_faults = static_cast<std::uint64_t>(thread.ru_majflt)};
  add_ticks(usage, cpus, root);
  return usage;
}

double process_age_s(const std::string& root) {
  std::ifstream file(root + "proc/self/stat");
  std::string text;
  std::getline(file, text);
  const auto name_end = text.rfind(')');  // the name of the program may contain blanks
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(text.substr(name_end + 1));
  std::string field;
  constexpr int state = 3, start = 22;  // numbers of fields in proc(5)
  for (int number = state; number < start; ++number) rest >> field;
  double started_ticks = 0;
  timespec now{};
  if (!(rest >> started_ticks) || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const double now_s = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  return std::max(0.0, now_s - started_ticks / static_cast<double>(sysconf(_SC_CLK_TCK)));
}

Usage operator-(const Usage& later, const Usage& earlier) {
  // A counter of /proc/stat may step back by a tick.
  const auto grown = [](std::uint64_t now, std::uint64_t before) { return now > before ? now - before : 0; };
  return {.elapsed_s = later.elapsed_s - earlier.elapsed_s,
          .cpu_s = later.cpu_s - earlier.cpu_s,
          .other_threads_cpu_s = std::max(0.0, later.other_threads_cpu_s - earlier.other_threads_cpu_s),
          .voluntary_switches = later.voluntary_switches - earlier.voluntary_switches,
          .involuntary_switches = later.involuntary_switches - earlier.involuntary_switches,
          .minor_faults = later.minor_faults - earlier.minor_faults,
          .major_faults = later.major_faults - earlier.major_faults,
          .steal_ticks = grown(later.steal_ticks, earlier.steal_ticks),
          .total_ticks = grown(later.total_ticks, earlier.total_ticks)};
}

}  // namespace volley
