#include "host/placement.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace volley {
namespace {

constexpr std::size_t bits_of_a_word = 8 * sizeof(CpuMask::value_type);

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool has(const std::vector<int>& cpus, int cpu) { return std::find(cpus.begin(), cpus.end(), cpu) != cpus.end(); }

}  // namespace

CpuMask mask_of(const std::vector<int>& cpus) {
  CpuMask mask;
  for (const int cpu : cpus) {
    const auto word = static_cast<std::size_t>(cpu) / bits_of_a_word;
    if (word >= mask.size()) mask.resize(word + 1);
    mask[word] |= 1UL << static_cast<std::size_t>(cpu) % bits_of_a_word;
  }
  return mask;
}

std::vector<int> cpus_in(const CpuMask& mask) {
  std::vector<int> cpus;
  for (std::size_t cpu = 0; cpu < mask.size() * bits_of_a_word; ++cpu) {
    if ((mask[cpu / bits_of_a_word] >> cpu % bits_of_a_word & 1) != 0) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

std::vector<int> allowed_cpus() {
  // The kernel rejects a mask that is shorter than its own, and does not report the length.
  constexpr std::size_t longest = 1UL << 16;
  CpuMask mask(CPU_SETSIZE / bits_of_a_word);
  while (sched_getaffinity(0, mask.size() * sizeof mask[0], reinterpret_cast<cpu_set_t*>(mask.data())) != 0) {
    check_system(errno == EINVAL && mask.size() < longest, "sched_getaffinity");
    mask.resize(2 * mask.size());
  }
  return cpus_in(mask);
}

std::vector<int> sockets_of(const std::vector<int>& cpus, const std::string& root) {
  std::vector<int> sockets;
  for (const int cpu : cpus) {
    const auto found = parse_cpu_list(
        first_line(root + "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/physical_package_id"));
    sockets.insert(sockets.end(), found.begin(), found.end());
  }
  std::sort(sockets.begin(), sockets.end());
  sockets.erase(std::unique(sockets.begin(), sockets.end()), sockets.end());
  return sockets;
}

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  for (const auto range : split(std::string_view(text).substr(0, text.find('\n')), ',')) {
    const auto dash = range.find('-');
    const auto first = parse_number(range.substr(0, dash));  // none of -1: Linux does not know the socket
    const auto last = dash == std::string_view::npos ? first : parse_number(range.substr(dash + 1));
    if (!first || !last) break;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
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

std::vector<int> allowed_cpus_near(const std::string& pci) {
  std::vector<int> near = cpus_near(pci);
  std::erase_if(near, [allowed = allowed_cpus()](int cpu) { return !has(allowed, cpu); });
  return near;
}

bool bind_to_cpus(const std::vector<int>& cpus, pthread_t thread) {
  const CpuMask mask = mask_of(cpus);
  const auto* const set = reinterpret_cast<const cpu_set_t*>(mask.data());
  const int problem = pthread_setaffinity_np(thread, mask.size() * sizeof mask[0], set);
  if (problem != 0) errno = problem;
  return problem == 0;
}

Binding::Binding(const std::vector<int>& cpus) : before_(allowed_cpus()) {
  if (!cpus.empty()) bind_to_cpus(cpus);
}

std::vector<std::vector<int>> distribute_cores(const std::vector<int>& cores, const std::vector<std::vector<int>>& near,
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

std::optional<std::vector<int>> bind_to_cores(int local_rank, const std::vector<std::vector<int>>& near, bool share) {
  std::vector<int> spare = allowed_cpus();
  const auto dealt = distribute_cores(first_threads(spare), near, share);
  if (static_cast<std::size_t>(local_rank) >= dealt.size()) return std::nullopt;
  check_system(bind_to_cpus(dealt[static_cast<std::size_t>(local_rank)]), "pthread_setaffinity_np");
  for (const auto& of_a_rank : dealt) std::erase_if(spare, [&](int cpu) { return has(of_a_rank, cpu); });
  return spare;
}

}  // namespace volley
