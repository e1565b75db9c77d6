#include "group/run_record.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <string_view>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "record/records.hpp"

extern char** environ;

namespace volley {

namespace {

// Variables that configure MPI, UCX, NCCL, CUDA or the launcher. Other variables are private and are not recorded.
constexpr auto recorded =
    std::to_array<std::string_view>({"OMPI_MCA_", "PMIX_MCA_", "PRTE_MCA_", "UCX_", "MPICH_", "MPIR_CVAR_", "FI_",
                                     "I_MPI_", "MV2_", "NCCL_", "NVSHMEM_", "CUDA_", "NVIDIA_VISIBLE_DEVICES",
                                     "SLURM_JOB_ID", "SLURM_STEP_ID", "LSB_JOBID", "LD_PRELOAD", "LD_LIBRARY_PATH"});

// A variable may contain a secret, or a path of a user, if its name contains one of these.
// src/volley/machine/capture.py has the same list.
constexpr auto secret =
    std::to_array<std::string_view>({"KEY", "TOKEN", "SECRET", "PASS", "CRED", "AUTH", "JWT", "URI", "INITIAL_WDIR"});

bool is_recorded(const std::string& name) {
  std::string capitals = name;
  for (char& c : capitals) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
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

Json engine_facts(const std::optional<std::string>& mpi_built) {
  return {{"version", VOLLEY_VERSION},
          {"mpi_built", or_null(mpi_built)},
          {"cuda_built", or_null(std::string(VOLLEY_CUDA_BUILT))},
          {"cuda_architectures", split(VOLLEY_CUDA_ARCHITECTURES, ' ')}};
}

Json to_json(const gpu::Device& device) {
  return {{"index", device.index},
          {"name", device.name},
          {"uuid", device.uuid},
          {"pci", device.pci},
          {"compute_capability", device.compute_capability},
          {"memory_bytes", device.memory_bytes}};
}

Json to_json(const RankFacts& facts) {
  return {{"rank", facts.rank},
          {"host", facts.host},
          {"node", facts.node},
          {"local_rank", facts.local_rank},
          {"pid", facts.pid},
          {"cores", facts.cores},
          {"sockets", facts.sockets},
          {"bound_by", facts.bound_by},
          {"cpu", facts.cpu},
          {"memory_available_bytes", facts.memory_available_bytes},
          {"device", facts.device ? to_json(*facts.device) : Json(nullptr)},
          {"device_chosen_late", facts.device_chosen_late}};
}

Json to_json(const Usage& usage, int rank) {
  return {{"rank", rank},
          {"elapsed_s", usage.elapsed_s},
          {"cpu_s", usage.cpu_s},
          {"voluntary_switches", usage.voluntary_switches},
          {"involuntary_switches", usage.involuntary_switches},
          {"minor_faults", usage.minor_faults},
          {"major_faults", usage.major_faults},
          {"steal_ticks", usage.steal_ticks},
          {"total_ticks", usage.total_ticks}};
}

RankFacts rank_from_json(const Json& json) {
  RankFacts facts;
  facts.rank = json.at("rank").get<int>();
  facts.host = json.at("host").get<std::string>();
  facts.node = json.at("node").get<int>();
  facts.local_rank = json.at("local_rank").get<int>();
  facts.pid = json.at("pid").get<std::int64_t>();
  facts.cores = json.at("cores").get<std::vector<int>>();
  facts.sockets = json.at("sockets").get<std::vector<int>>();
  facts.bound_by = json.at("bound_by").get<std::string>();
  facts.cpu = json.at("cpu").get<std::string>();
  facts.memory_available_bytes = json.at("memory_available_bytes").get<std::uint64_t>();
  if (const Json& device = json.at("device"); !device.is_null()) {
    facts.device = gpu::Device{device.at("index").get<int>(),
                               device.at("name").get<std::string>(),
                               device.at("uuid").get<std::string>(),
                               device.at("pci").get<std::string>(),
                               device.at("compute_capability").get<std::string>(),
                               device.at("memory_bytes").get<std::uint64_t>()};
  }
  facts.device_chosen_late = json.at("device_chosen_late").get<bool>();
  return facts;
}

Json run_record(const Job& job, const Plan& plan, double clock_read_s, const std::optional<std::string>& mpi_built,
                const Json& mpi, const Startup& startup) {
  Json ranks = Json::array();
  for (const auto& facts : job.ranks) ranks.push_back(to_json(facts));
  const double tick = static_cast<double>(Clock::period::num) / static_cast<double>(Clock::period::den);
  return {{"record", "run"},
          {"version", record_version},
          {"started_at", utc_now()},
          {"engine", engine_facts(mpi_built)},
          {"mpi", mpi},
          {"clock", {{"name", "steady_clock"}, {"resolution_s", tick}, {"read_s", clock_read_s}}},
          {"startup",
           {{"main_s", startup.main_s},
            {"placed_s", startup.placed_s},
            {"mpi_s", or_null(startup.mpi_s)},
            {"plan_s", startup.plan_s}}},
          {"ranks", ranks},
          {"environment", recorded_environment()},
          {"plan", json_from(plan.document)}};
}

}  // namespace volley
