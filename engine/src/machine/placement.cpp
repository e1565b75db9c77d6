#include "machine/placement.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

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

std::string of_cpu(const std::string& root, int cpu) {
  return root + "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
}

// The first number of `numbers_of(cpu)` of each CPU for which there is one: each once, in order.
template <class OfCpu>
std::vector<int> first_numbers(const std::vector<int>& cpus, const OfCpu& numbers_of) {
  std::set<int> numbers;
  for (const int cpu : cpus) {
    if (const std::vector<int> found = numbers_of(cpu); !found.empty()) numbers.insert(found.front());
  }
  return {numbers.begin(), numbers.end()};
}

// The CPUs of the NUMA node of `cpu`; none if Linux reports no node.
std::vector<int> numa_cpus_of(int cpu, const std::string& root) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(of_cpu(root, cpu), none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("node")) return parse_cpu_list(first_line(entry.path() / "cpulist"));
  }
  return {};
}

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
  return first_numbers(
      cpus, [&](int cpu) { return parse_cpu_list(first_line(of_cpu(root, cpu) + "topology/physical_package_id")); });
}

// Linux lists the caches of a CPU from the first level on.
std::vector<int> caches_of(const std::vector<int>& cpus, const std::string& root) {
  return first_numbers(cpus, [&](int cpu) {
    std::vector<int> sharing;
    for (int index = 0;; ++index) {
      const std::string cache = of_cpu(root, cpu) + "cache/index" + std::to_string(index) + "/";
      auto found = parse_cpu_list(first_line(cache + "shared_cpu_list"));
      if (found.empty()) return sharing;
      sharing = std::move(found);
    }
  });
}

std::vector<int> numa_nodes_of(const std::vector<int>& cpus, const std::string& root) {
  return first_numbers(cpus, [&](int cpu) { return numa_cpus_of(cpu, root); });
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

std::vector<int> siblings_of(int cpu, const std::string& root) {
  const auto siblings = parse_cpu_list(first_line(of_cpu(root, cpu) + "topology/thread_siblings_list"));
  return siblings.empty() ? std::vector{cpu} : siblings;
}

std::vector<int> first_threads(const std::vector<int>& cpus, const std::string& root) {
  std::vector<int> first;
  for (const int cpu : cpus) {
    const auto siblings = siblings_of(cpu, root);
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

RankCpus unbound_cpus() {
  const auto all = allowed_cpus();
  return {.measuring = all, .libraries = all, .spare = {}};
}

std::map<std::string, int> cpus_of_other_threads() {
  constexpr std::string_view key = "Cpus_allowed_list:\t";  // proc_pid_status(5)
  std::map<std::string, int> found;
  std::error_code none;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", none)) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream file(task.path() / "status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(key)) ++found[line.substr(key.size())];
    }
  }
  return found;
}

std::vector<std::vector<int>> distribute_cores(std::vector<int> cores, const std::vector<std::vector<int>>& near,
                                               bool share) {
  const std::size_t ranks = near.size();
  if (ranks == 0 || cores.size() < ranks) return {};
  const std::size_t each = share ? cores.size() / ranks : 1;
  std::stable_partition(cores.begin(), cores.end(), [](int core) { return core != 0; });
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

std::optional<RankCpus> cpus_of_rank(int local_rank, const std::vector<int>& allowed,
                                     const std::vector<std::vector<int>>& near, bool share, const std::string& root) {
  const auto dealt = distribute_cores(first_threads(allowed, root), near, share);
  const auto self = static_cast<std::size_t>(local_rank);
  if (self >= dealt.size()) return std::nullopt;
  RankCpus cpus{.measuring = dealt[self], .libraries = dealt[self], .spare = allowed};
  std::vector<int> threads = allowed;  // without the measuring ones, but with the other hardware threads of their cores
  for (const auto& of_a_rank : dealt) {
    for (const int core : of_a_rank) {
      std::erase(threads, core);
      std::erase_if(cpus.spare, [siblings = siblings_of(core, root)](int cpu) { return has(siblings, cpu); });
    }
  }
  if (cpus.spare.empty()) cpus.spare = threads;
  std::vector<int> close = near[self];
  for (const int core : cpus.measuring) {
    const auto node = numa_cpus_of(core, root);
    close.insert(close.end(), node.begin(), node.end());
  }
  const bool some_close = std::ranges::any_of(cpus.spare, [&](int cpu) { return has(close, cpu); });
  std::ranges::copy_if(cpus.spare, std::back_inserter(cpus.libraries),
                       [&](int cpu) { return !some_close || has(close, cpu); });
  return cpus;
}

}  // namespace volley
