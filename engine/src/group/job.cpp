#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "group/job.hpp"
#include "machine/launch_environment.hpp"
#include "record/records.hpp"

extern char** environ;
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
    auto cpus = cpus_of_rank(*launcher.local_rank, allowed_cpus(), near, options.share);
    placement.bound = cpus.has_value();
    if (cpus) placement.cpus = *std::move(cpus);
    check_system(bind_to_cpus(placement.cpus.libraries), "pthread_setaffinity_np");
  }
  if (launcher.local_rank && !options.gpu_after_init) choose_device(placement, options, *launcher.local_rank);
}

// Variables that configure MPI, UCX, NCCL, CUDA or the launcher. Other variables are private and are not recorded.
constexpr auto recorded =
    std::to_array<std::string_view>({"OMPI_MCA_", "PMIX_MCA_", "PRTE_MCA_", "UCX_", "MPICH_", "MPIR_CVAR_", "FI_",
                                     "I_MPI_", "MV2_", "NCCL_", "NVSHMEM_", "CUDA_", "NVIDIA_VISIBLE_DEVICES",
                                     "SLURM_JOB_ID", "SLURM_STEP_ID", "LSB_JOBID", "LD_PRELOAD", "LD_LIBRARY_PATH"});

// A variable may contain a secret, or a path of a user, if its name contains one of these; a partition key of
// InfiniBand, UCX_IB_PKEY, is none. src/volley/machine/variables.py has the same list.
constexpr auto secret =
    std::to_array<std::string_view>({"KEY", "TOKEN", "SECRET", "PASS", "CRED", "AUTH", "JWT", "URI", "INITIAL_WDIR"});

bool is_recorded(const std::string& name) {
  std::string capitals = name;
  for (char& c : capitals) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (const auto at = capitals.find("_PKEY"); at != std::string::npos)
    capitals.erase(at, std::string_view("_PKEY").size());
  return std::ranges::any_of(recorded, [&](auto prefix) { return name.starts_with(prefix); }) &&
         std::ranges::none_of(secret, [&](auto part) { return capitals.find(part) != std::string::npos; });
}

Json recorded_environment() {
  Json found = Json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string name(text.substr(0, equals));
    if (is_recorded(name)) found[name] = std::string(text.substr(equals + 1));
  }
  return found;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
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
  Placement placement{.cpus = unbound_cpus()};
  try {
    bind_and_choose_device(options, placement);
  } catch (const std::exception&) {
    placement.problem = std::current_exception();
  }
  return placement;
}

std::string Job::name_of(const std::vector<int>& those) const {
  if (those.size() > 2) return std::to_string(those.size()) + " ranks";
  std::string numbers, names;
  for (const int each : those) {
    numbers.append(numbers.empty() ? "" : "-").append(std::to_string(each));
    names.append(names.empty() ? "" : ", ").append(host(each));
  }
  return (those.size() == 2 ? "pair " : "rank ") + numbers + (hosts.size() == 1 ? "" : " (" + names + ")");
}

std::string shared_core(const std::vector<RankFacts>& ranks) {
  std::map<std::pair<int, int>, int> holders;  // of node and core
  for (const RankFacts& facts : ranks) {
    if (facts.bound_by != "engine") continue;
    for (const int core : facts.cores) {
      const auto [holder, first] = holders.try_emplace({facts.node, core}, facts.rank);
      if (first) continue;
      return "ranks " + std::to_string(holder->second) + " and " + std::to_string(facts.rank) + " on " + facts.host +
             " were bound to one core, because they see different GPUs or may use different cores: give all ranks of a "
             "node the same GPUs and cores (Slurm: no --gpus-per-task), or start volley inside the launcher to use its "
             "binding";
    }
  }
  return {};
}

Json own_facts(const Job& job, const Placement& placement) {
  const std::vector<int>& cores = placement.cpus.measuring;
  return {{"rank", job.rank},
          {"host", host_name()},
          {"node", job.node(job.rank)},
          {"local_rank", job.local_rank},
          {"pid", getpid()},
          {"cores", cores},
          {"sockets", sockets_of(cores)},
          {"caches", caches_of(cores)},
          {"numa_nodes", numa_nodes_of(cores)},
          {"bound_by", binder(placement, cores)},
          {"library_cpus", placement.cpus.libraries},
          {"cpu", cpu_model()},
          {"memory_available_bytes", available_memory_bytes()},
          {"device", placement.device ? to_json(gpu::describe(*placement.device)) : Json(nullptr)},
          {"device_chosen_late", placement.device_chosen_late}};
}

Json to_json(const gpu::Device& device) {
  return {{"index", device.index},
          {"name", device.name},
          {"uuid", device.uuid},
          {"pci", device.pci},
          {"compute_capability", device.compute_capability},
          {"memory_bytes", device.memory_bytes}};
}

RankFacts facts_in(const std::string& record) {
  const auto read = nlohmann::ordered_json::parse(record);
  RankFacts facts{.rank = read["rank"],
                  .host = read["host"],
                  .node = read["node"],
                  .cores = read["cores"],
                  .bound_by = read["bound_by"],
                  .device = {}};
  if (const auto& device = read["device"]; !device.is_null()) {
    facts.device = {device["index"],       device["name"], device["uuid"], device["pci"], device["compute_capability"],
                    device["memory_bytes"]};
  }
  return facts;
}

void Job::take_places(const std::vector<RankFacts>& all) {
  std::map<std::pair<std::string, std::string>, int> gpus_of_all;  // of host and UUID
  for (const RankFacts& each : all) {
    if (each.node == static_cast<int>(hosts.size())) hosts.push_back(each.host);
    const int next = static_cast<int>(gpus_of_all.size());
    gpu_of.push_back(each.device ? gpus_of_all.try_emplace({each.host, each.device->uuid}, next).first->second : -1);
  }
}

Job make_local_job() {
  Job job;
  job.gpus = gpu::presence();
  Placement placement{.cpus = unbound_cpus()};
  if (job.gpus.devices > 0) placement.device = 0;
  job.node_of = {0};
  job.records = {own_facts(job, placement)};
  job.neighbours = {facts_in(job.records.front().text())};
  job.take_places(job.neighbours);
  return job;
}

Json engine_facts() {
  return {{"version", VOLLEY_VERSION},
          {"cuda_built", or_null(std::string(VOLLEY_CUDA_BUILT))},
          {"cuda_architectures", split(VOLLEY_CUDA_ARCHITECTURES, ' ')}};
}

Json to_json(const Usage& usage, int rank) {
  return {{"rank", rank},
          {"elapsed_s", usage.elapsed_s},
          {"cpu_s", usage.cpu_s},
          {"other_threads_cpu_s", usage.other_threads_cpu_s},
          {"voluntary_switches", usage.voluntary_switches},
          {"involuntary_switches", usage.involuntary_switches},
          {"minor_faults", usage.minor_faults},
          {"major_faults", usage.major_faults},
          {"steal_ticks", usage.steal_ticks},
          {"total_ticks", usage.total_ticks}};
}

Json run_record(const Job& job, const Plan& plan, double clock_read_s, const Json& mpi, const Startup& startup) {
  const double tick = static_cast<double>(Clock::period::num) / static_cast<double>(Clock::period::den);
  return {{"record", "run"},
          {"version", record_version},
          {"started_at", utc_now()},
          {"engine", engine_facts()},
          {"mpi", mpi},
          {"clock", {{"name", "steady_clock"}, {"resolution_s", tick}, {"read_s", clock_read_s}}},
          {"startup",
           {{"main_s", startup.main_s},
            {"placed_s", startup.placed_s},
            {"mpi_s", or_null(startup.mpi_s)},
            {"plan_s", startup.plan_s}}},
          {"ranks", job.records},
          {"environment", recorded_environment()},
          {"plan", Json::written(plan.document)}};
}

}  // namespace volley
