#include "host/placement.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/errors.hpp"

namespace volley {

namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool has(const std::vector<int>& cpus, int cpu) { return std::find(cpus.begin(), cpus.end(), cpu) != cpus.end(); }

}  // namespace

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  check_system(sched_getaffinity(0, sizeof set, &set) == 0, "sched_getaffinity");
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<int> sockets_of(const std::vector<int>& cpus) {
  std::vector<int> sockets;
  for (const int cpu : cpus) {
    const auto found = parse_cpu_list(
        first_line("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/physical_package_id"));
    sockets.insert(sockets.end(), found.begin(), found.end());
  }
  std::sort(sockets.begin(), sockets.end());
  sockets.erase(std::unique(sockets.begin(), sockets.end()), sockets.end());
  return sockets;
}

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = 0;
    const auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc{}) break;
    int last = first;
    at = read.ptr;
    if (at < end && *at == '-') at = std::from_chars(at + 1, end, last).ptr;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (at < end && *at != ',') break;
    ++at;
  }
  return cpus;
}

std::vector<int> first_threads(const std::vector<int>& cpus) {
  std::vector<int> first;
  for (const int cpu : cpus) {
    const auto siblings = parse_cpu_list(
        first_line("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list"));
    const auto leader = std::find_if(siblings.begin(), siblings.end(), [&](int sibling) { return has(cpus, sibling); });
    if (leader == siblings.end() || *leader == cpu) first.push_back(cpu);
  }
  return first;
}

std::vector<int> cpus_near(const std::string& pci) {
  return parse_cpu_list(first_line("/sys/bus/pci/devices/" + pci + "/local_cpulist"));
}

std::vector<std::vector<int>> deal_cores(const std::vector<int>& cores, const std::vector<std::vector<int>>& near,
                                         bool share) {
  const std::size_t ranks = near.size();
  if (ranks == 0 || cores.size() < ranks) return {};
  const std::size_t each = share ? cores.size() / ranks : 1;
  std::vector<bool> taken(cores.size());
  std::vector<std::vector<int>> dealt(ranks);
  const auto take = [&](std::size_t rank, auto wanted) {
    for (std::size_t i = 0; i < cores.size() && dealt[rank].size() < each; ++i) {
      if (taken[i] || !wanted(cores[i])) continue;
      taken[i] = true;
      dealt[rank].push_back(cores[i]);
    }
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) take(rank, [&](int core) { return has(near[rank], core); });
  for (std::size_t rank = 0; rank < ranks; ++rank) take(rank, [](int) { return true; });
  return dealt;
}

bool bind_to_cores(int local_rank, const std::vector<std::vector<int>>& near, bool share) {
  const auto dealt = deal_cores(first_threads(allowed_cpus()), near, share);
  if (static_cast<std::size_t>(local_rank) >= dealt.size()) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : dealt[static_cast<std::size_t>(local_rank)]) CPU_SET(static_cast<std::size_t>(cpu), &set);
  check_system(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
  return true;
}

}  // namespace volley
