#include "context.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <utility>

#include "memory.hpp"
#include "placement.hpp"
#include "record/facts.hpp"
#include "wire.hpp"

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

// Who, if anybody, restricted this process: compared with every CPU that is online.
std::string binder(const Placement& placement, const std::vector<int>& cores) {
  if (placement.bound) return "engine";
  const auto online = sysconf(_SC_NPROCESSORS_ONLN);
  return static_cast<long>(cores.size()) < online ? "launcher" : "nobody";
}

// The device of a local rank: as --gpus says, else the tutorial's local rank % devices. None where CUDA sees none.
std::optional<int> chosen_device(const Options& options, const gpu::Presence& gpus, int local_rank) {
  if (gpus.devices == 0) return std::nullopt;
  if (options.gpus.empty()) return local_rank % gpus.devices;
  return options.gpus[static_cast<std::size_t>(local_rank) % options.gpus.size()];
}

// The CPUs near the device of each rank of this node. Each rank can say it of all, since all choose by one rule.
std::vector<std::vector<int>> cpus_near_ranks(const Options& options, const gpu::Presence& gpus, int ranks) {
  std::vector<std::vector<int>> of_device;
  for (int device = 0; device < gpus.devices; ++device) of_device.push_back(cpus_near(gpu::describe(device).pci));
  std::vector<std::vector<int>> of_rank;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto device = chosen_device(options, gpus, rank);
    const bool seen = device && *device < gpus.devices;
    of_rank.push_back(seen ? of_device[static_cast<std::size_t>(*device)] : std::vector<int>{});
  }
  return of_rank;
}

std::string refused_device(int device, int devices) {
  return "--gpus asks for device " + std::to_string(device) + ", but CUDA sees " + std::to_string(devices) +
         " here, counted from 0; CUDA_VISIBLE_DEVICES may hide others";
}

// Nodes are numbered by the first rank on each; every rank learns its node's leader and looks it up.
int node_number(const Context& context, int node_leader) {
  const auto count = static_cast<std::size_t>(context.size);
  std::vector<int> leaders(count);
  VOLLEY_MPI(MPI_Allgather(&node_leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, context.world.get()));
  std::sort(leaders.begin(), leaders.end());
  leaders.erase(std::unique(leaders.begin(), leaders.end()), leaders.end());
  return static_cast<int>(std::lower_bound(leaders.begin(), leaders.end(), node_leader) - leaders.begin());
}

RankFacts facts_of(const Context& context, const Placement& placement, int node) {
  RankFacts facts;
  facts.rank = context.rank;
  facts.host = host_name();
  facts.local_rank = context.local_rank;
  facts.node = node;
  facts.pid = getpid();
  facts.cores = allowed_cpus();
  facts.sockets = sockets_of(facts.cores);
  facts.bound_by = binder(placement, facts.cores);
  facts.cpu = cpu_model();
  facts.memory_available_bytes = available_memory_bytes();
  if (placement.device) facts.device = gpu::describe(*placement.device);
  return facts;
}

// `self`: 0 for the first of the two, 1 for the second.
Pair pair_over(MPI_Comm both, int first, int second, int self) {
  Pair pair;
  pair.data = Communicator(both);
  // An error in a message is reported by the call, so that it can be named before the job ends.
  VOLLEY_MPI(MPI_Comm_set_errhandler(pair.data.get(), MPI_ERRORS_RETURN));
  pair.control = Communicator::duplicate(both);
  pair.ranks = {first, second};
  pair.self = self;
  pair.peer = 1 - self;
  return pair;
}

}  // namespace

Placement place(const Options& options) {
  const LauncherView launcher = launcher_view();
  Placement placement;
  placement.local_rank = launcher.local_rank.value_or(0);
  placement.gpus = gpu::presence();
  placement.device = chosen_device(options, placement.gpus, placement.local_rank);
  if (placement.device && *placement.device >= placement.gpus.devices) {
    placement.refusal = refused_device(*placement.device, placement.gpus.devices);
    placement.device.reset();
  }
  if (options.bind && launcher.local_rank && launcher.local_size) {
    const auto near = cpus_near_ranks(options, placement.gpus, *launcher.local_size);
    placement.bound = bind_to_cores(placement.local_rank, near, options.share);
  }
  if (placement.device && !options.alone) gpu::select(*placement.device);  // a context, which `node` makes itself
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

Context make_context_alone(const Placement& placement) {
  if (!placement.refusal.empty()) throw Refusal(placement.refusal);
  Context context;
  context.gpus = placement.gpus;
  context.ranks.push_back(facts_of(context, placement, 0));
  return context;
}

Context make_context(const Options& options, const Placement& placement) {
  if (!placement.refusal.empty()) throw Refusal(placement.refusal);
  Context context;
  context.world = Communicator::duplicate(MPI_COMM_WORLD);
  context.rank = context.world.rank();
  context.size = context.world.size();
  context.gpus = placement.gpus;
  const Communicator node = Communicator::node_of(context.world.get());
  context.local_rank = node.rank();
  context.local_size = node.size();
  if (options.bind && context.local_rank != placement.local_rank) {
    throw Refusal("the launcher's variables call this process local rank " + std::to_string(placement.local_rank) +
                  ", MPI says " + std::to_string(context.local_rank) + ": start it without --bind");
  }

  const int number = node_number(context, wire::broadcast_value(context.rank, 0, node.get()));
  const RankFacts facts = facts_of(context, placement, number);
  for (const auto& text : wire::all_gather(line_of(to_json(facts)), context.world.get())) {
    context.ranks.push_back(rank_from_json(json_from(text)));
  }
  return context;
}

std::optional<Pair> make_pair(const Context& context, int first, int second) {
  const bool member = context.rank == first || context.rank == second;
  return join_pair(context, member ? std::optional(std::array{first, second}) : std::nullopt);
}

std::optional<Pair> join_pair(const Context& context, const std::optional<std::array<int, 2>>& ranks) {
  const int key = ranks && context.rank != (*ranks)[0] ? 1 : 0;
  MPI_Comm both = MPI_COMM_NULL;
  VOLLEY_MPI(MPI_Comm_split(context.world.get(), ranks ? (*ranks)[0] : MPI_UNDEFINED, key, &both));
  if (!ranks) return std::nullopt;
  return pair_over(both, (*ranks)[0], (*ranks)[1], key);
}

Pair make_pair_alone(const Context& context, int first, int second) {
  constexpr int tag = 50;
  const std::array<int, 2> ranks{first, second};
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group two = MPI_GROUP_NULL;
  VOLLEY_MPI(MPI_Comm_group(context.world.get(), &world));
  VOLLEY_MPI(MPI_Group_incl(world, 2, ranks.data(), &two));
  MPI_Comm both = MPI_COMM_NULL;
  VOLLEY_MPI(MPI_Comm_create_group(context.world.get(), two, tag, &both));
  VOLLEY_MPI(MPI_Group_free(&two));
  VOLLEY_MPI(MPI_Group_free(&world));
  return pair_over(both, first, second, context.rank == first ? 0 : 1);
}

}  // namespace volley
