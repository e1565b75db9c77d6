#include "group/job.hpp"

#include <unistd.h>

#include <array>
#include <fstream>
#include <map>
#include <utility>

#include "base/errors.hpp"
#include "host/launch_environment.hpp"
#include "host/memory.hpp"
#include "host/placement.hpp"

namespace volley {

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  check_system(gethostname(name.data(), name.size() - 1) == 0, "gethostname");
  return name.data();
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

// Who bound this process: it is bound if it may use fewer CPUs than are online.
std::string binder(const Placement& placement, const std::vector<int>& cores) {
  if (placement.bound) return "engine";
  const auto online = sysconf(_SC_NPROCESSORS_ONLN);
  return static_cast<long>(cores.size()) < online ? "launcher" : "nobody";
}

// The CPUs near the device of each rank of this node. Every rank computes this for all ranks, by the same rule.
std::vector<std::vector<int>> cpus_near_ranks(const Options& options, const gpu::Presence& gpus, int ranks) {
  std::vector<std::vector<int>> of_device;
  for (int device = 0; device < gpus.devices; ++device) of_device.push_back(cpus_near(gpu::describe(device).pci));
  std::vector<std::vector<int>> of_rank;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto device = device_of(rank, options, gpus);
    const bool visible = device && *device < gpus.devices;
    of_rank.push_back(visible ? of_device[static_cast<std::size_t>(*device)] : std::vector<int>{});
  }
  return of_rank;
}

void bind_and_choose_device(const Options& options, Placement& placement) {
  const LaunchEnvironment launcher = launch_environment();
  placement.local_rank = launcher.local_rank;
  placement.gpus = gpu::presence();
  if (options.bind && launcher.local_rank && launcher.local_size) {
    const auto near = cpus_near_ranks(options, placement.gpus, *launcher.local_size);
    auto spare = bind_to_cores(*launcher.local_rank, near, options.share);
    placement.bound = spare.has_value();
    placement.spare_cpus = std::move(spare).value_or(std::vector<int>{});
  }
  if (launcher.local_rank && !options.gpu_after_init) choose_device(placement, options, *launcher.local_rank);
}

}  // namespace

std::optional<int> device_of(int local_rank, const Options& options, const gpu::Presence& gpus) {
  if (gpus.devices == 0) return std::nullopt;
  if (options.gpus.empty()) return local_rank % gpus.devices;
  return options.gpus[static_cast<std::size_t>(local_rank) % options.gpus.size()];
}

void choose_device(Placement& placement, const Options& options, int local_rank) {
  if (placement.gpus.devices == 0 && !options.gpus.empty()) {
    throw UsageError("--gpus asks for device " + std::to_string(options.gpus.front()) + ", but " +
                     placement.gpus.reason);
  }
  placement.device = device_of(local_rank, options, placement.gpus);
  if (!placement.device) return;
  if (*placement.device >= placement.gpus.devices) {
    throw UsageError("--gpus asks for device " + std::to_string(*placement.device) + ", but CUDA sees " +
                     std::to_string(placement.gpus.devices) +
                     " here, counted from 0; CUDA_VISIBLE_DEVICES may hide others");
  }
  gpu::select(*placement.device);
}

Placement place(const Options& options) {
  Placement placement;
  try {
    bind_and_choose_device(options, placement);
  } catch (const std::exception&) {
    placement.problem = std::current_exception();
  }
  return placement;
}

bool same_device(const RankFacts& one, const RankFacts& other) {
  return one.device && other.device && one.host == other.host && one.device->uuid == other.device->uuid;
}

std::optional<std::array<int, 2>> bound_to_one_core(const std::vector<RankFacts>& ranks) {
  std::map<std::pair<int, int>, int> holders;  // of node and core
  for (const RankFacts& facts : ranks) {
    if (facts.bound_by != "engine") continue;
    for (const int core : facts.cores) {
      const auto [holder, first] = holders.try_emplace({facts.node, core}, facts.rank);
      if (!first) return std::array{holder->second, facts.rank};
    }
  }
  return std::nullopt;
}

void check_cores(const std::vector<RankFacts>& ranks) {
  const auto both = bound_to_one_core(ranks);
  if (!both) return;
  throw AgreedUsageError("ranks " + std::to_string((*both)[0]) + " and " + std::to_string((*both)[1]) + " on " +
                         ranks[static_cast<std::size_t>((*both)[0])].host +
                         " were bound to one core, because they see different GPUs or may use different cores: give "
                         "all ranks of a node the same GPUs and cores (Slurm: no --gpus-per-task), or start volley "
                         "inside the launcher to use its binding");
}

RankFacts own_facts(const Job& job, const Placement& placement, int node) {
  RankFacts facts;
  facts.rank = job.rank;
  facts.host = host_name();
  facts.local_rank = job.local_rank;
  facts.node = node;
  facts.pid = getpid();
  facts.cores = allowed_cpus();
  facts.sockets = sockets_of(facts.cores);
  facts.bound_by = binder(placement, facts.cores);
  facts.cpu = cpu_model();
  facts.memory_available_bytes = available_memory_bytes();
  if (placement.device) facts.device = gpu::describe(*placement.device);
  facts.device_chosen_late = placement.device_chosen_late;
  return facts;
}

Job make_local_job() {
  Job job;
  job.gpus = gpu::presence();
  Placement placement;
  if (job.gpus.devices > 0) placement.device = 0;
  job.ranks.push_back(own_facts(job, placement, 0));
  return job;
}

}  // namespace volley
