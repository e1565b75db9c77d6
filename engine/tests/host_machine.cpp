// Reading the machine: CPU lists, binding, and memory limits of control groups (replayed from a made-up root).
#include "expect.hpp"
#include "group/context.hpp"
#include "machine/counted_devices.hpp"
#include "machine/launch_environment.hpp"
#include "machine/placement.hpp"
#include "machine/usage.hpp"
#include "messages/memory.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <utility>

#include <unistd.h>

using namespace volley;

extern "C" std::uint64_t fake_nvml_counted;  // fake_nvml.cpp

namespace {

// A file system root that says what the test wants, removed at the end.
class Root {
 public:
  Root() : path_(std::filesystem::temp_directory_path() / ("volley-root-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path_);
    write("proc/meminfo", "MemTotal:       99 kB\nMemFree: 1 kB\nMemAvailable:    1000 kB\n");
    write("proc/self/cgroup", "0::/a/b\n");
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  ~Root() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }
  [[nodiscard]] std::uint64_t available() const { return available_memory_bytes(path()); }
  [[nodiscard]] std::string path() const { return path_.string() + "/"; }

 private:
  std::filesystem::path path_;
};

// Of a processor with several third-level caches a core uses one; so the sum is of no interest.
TEST(the_last_cache_is_the_largest_of_a_core) {
  const Root root;
  EXPECT(last_cache_bytes(root.path()) == 0);
  root.write("sys/devices/system/cpu/cpu0/cache/index0/size", "32K\n");
  root.write("sys/devices/system/cpu/cpu0/cache/index3/size", "32768K\n");
  EXPECT(last_cache_bytes(root.path()) == std::uint64_t{32} << 20);
}

TEST(memory_without_limits_is_mem_available) {
  const Root root;
  EXPECT(root.available() == 1000 * 1024);
  root.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT(root.available() == 1000 * 1024);
}

// A record has no room for 2^64 - 1.
TEST(unknown_memory_is_a_number_of_a_record) {
  const Root root;
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  root.write("proc/meminfo", "MemTotal:       99 kB\n");
  EXPECT(root.available() == most);
  root.write("sys/fs/cgroup/a/b/memory.max", "18446744073709551615\n");
  EXPECT(root.available() == most);
}

TEST(sizes_have_no_exponent) {
  EXPECT(in_gib(5ULL << 28) == "1.25 GiB");
  EXPECT(in_gib(2052ULL << 30) == "2052 GiB");
}

TEST(the_tightest_group_counts) {
  const Root root;
  root.write("sys/fs/cgroup/a/b/memory.max", "900000\n");
  root.write("sys/fs/cgroup/a/b/memory.current", "100000\n");
  EXPECT(root.available() == 800000);
  root.write("sys/fs/cgroup/a/memory.max", "500000\n");  // a group above
  root.write("sys/fs/cgroup/a/memory.current", "200000\n");
  EXPECT(root.available() == 300000);
  root.write("sys/fs/cgroup/a/memory.current", "600000\n");  // over its limit: nothing left, not a wrapped number
  EXPECT(root.available() == 0);
}

TEST(version_1_groups_count_too) {
  const Root root;
  root.write("proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/\n");
  root.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "700000\n");
  root.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "50000\n");
  EXPECT(root.available() == 650000);
}

TEST(stolen_time_is_that_of_the_rank_s_cpus) {
  const Root root;
  root.write("proc/stat",
             "cpu  9 9 9 9 9 9 9 9 9 9\n"
             "cpu0 1 2 3 4 5 6 7 80 9 9\n"
             "cpu1 0 0 0 0 0 0 0 1000 0 0\n"
             "cpu2 10 0 0 0 0 0 0 3 10 0\n"
             "intr 5\n");
  const Usage usage = usage_now({0, 2}, root.path());
  EXPECT(usage.steal_ticks == 83);
  EXPECT(usage.total_ticks == 108 + 13);  // without those of guests, which are counted as user's already
  root.write("proc/stat", "cpu  9 9 9\n");
  EXPECT(usage_now({0}, root.path()).total_ticks == 0);
}

TEST(network_devices_are_counted_in_bytes) {
  const Root root;
  EXPECT(network_devices(root.path()).empty());
  const auto net = [&](const std::string& name, const char* rate) {
    const std::string at = "sys/class/net/" + name + "/";
    root.write(at + "carrier", "1\n");
    root.write(at + "speed", rate);
    for (const auto* each : {"tx_bytes", "rx_bytes", "tx_packets", "rx_packets"}) {
      root.write(at + "statistics/" + each, "12\n");
    }
  };
  net("eth1", "-1\n");
  net("ib0", "200000\n");
  root.write("sys/class/net/eth1/upper_bond0", "");
  root.write("sys/class/net/bonding_masters", "bond0\n");  // a file among the folders
  const std::string rdma = "sys/class/infiniband/";
  root.write(rdma + "mlx5_0/device/net/ib0", "");
  root.write(rdma + "mlx5_0/ports/1/state", "4: ACTIVE\n");
  root.write(rdma + "mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
  root.write(rdma + "mlx5_0/ports/1/counters/port_xmit_data", "250\n");
  root.write(rdma + "mlx5_0/ports/1/counters/port_xmit_packets", "3\n");
  root.write(rdma + "mlx5_0/ports/2/state", "1: DOWN\n");
  root.write(rdma + "hfi1_0/ports/1/counters/port_xmit_data", "250\n");
  root.write(rdma + "rdmap0s6/ports/1/hw_counters/rx_bytes", "777\n");
  const auto found = network_devices(root.path());
  EXPECT(found.size() == 6);
  EXPECT(found[0].name == "eth1" && found[0].up && found[0].rate_bits_per_s == 0 && found[0].sent_bytes == 12);
  EXPECT(found[0].shared == std::vector<std::string>{"bond0"});
  EXPECT(found[1].name == "ib0" && found[1].rate_bits_per_s == 200e9 && !found[1].rdma);
  EXPECT(found[2].name == "hfi1_0" && found[2].sent_bytes == 2000);
  EXPECT(found[3].name == "mlx5_0" && found[3].rdma && found[3].up && found[3].rate_bits_per_s == 200e9);
  EXPECT(found[3].sent_bytes == 1000 && found[3].sent_packets == 3 && found[3].received_bytes == 0);
  EXPECT(found[3].shared == std::vector<std::string>{"ib0"});
  EXPECT(found[4].name == "mlx5_0:2" && !found[4].up);
  EXPECT(found[5].name == "rdmap0s6" && found[5].received_bytes == 777);
}

TEST(links_of_gpus_are_counted_in_bytes) {
  EXPECT(gpu_links("c:0", "").empty());
  fake_nvml_counted = 5;
  const auto found = gpu_links("a:0", "b:0");
  EXPECT(found.size() == 2 && found[0].name == "NVLink" && found[1].name == "PCIe");
  EXPECT(found[0].gpu && found[0].up && found[0].sent_bytes == 5120 && found[0].received_bytes == 5120);
  EXPECT(found[1].gpu && found[1].up && found[1].sent_bytes == 5 && found[1].received_bytes == 5);
  EXPECT(gpu_links("b:0", "a:0").size() == 1);
  EXPECT(!gpu_links("a:0", "a:0")[0].up);  // a GPU is joined to others only
  EXPECT(!gpu_links("a:0", "")[0].up);     // the other one is on another host
}

TEST(a_counter_of_32_bits_begins_again) {
  EXPECT(counted_since(5, 12) == 7);
  EXPECT(counted_since(0xffff'fff0, 16) == 32);
  EXPECT(counted_since(1ULL << 40, (1ULL << 40) + 9) == 9);
}

TEST(a_process_knows_its_age) {
  Root root;
  EXPECT(process_age_s(root.path()) == 0);  // Linux does not say
  timespec now{};
  EXPECT(clock_gettime(CLOCK_BOOTTIME, &now) == 0);
  const auto started = (now.tv_sec - 5) * sysconf(_SC_CLK_TCK);
  root.write("proc/self/stat",
             "7 (a) (b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 " + std::to_string(started) + " 20\n");
  EXPECT(process_age_s(root.path()) >= 5);
  EXPECT(process_age_s(root.path()) < 5 + 600);
}

TEST(a_thread_s_usage_is_counted) {
  const Usage before = usage_now(allowed_cpus());
  constexpr std::size_t pages = 100;
  std::vector<char> touched(pages * 4096, 'x');
  EXPECT(touched.back() == 'x');
  for (int i = 0; i < 5; ++i) usleep(1000);
  const Usage used = usage_now(allowed_cpus()) - before;
  EXPECT(used.voluntary_switches >= 5);
  EXPECT(used.minor_faults >= pages / 2);
  EXPECT(used.elapsed_s >= 5e-3 && used.cpu_s >= 0);
}

TEST(cpu_lists) {
  EXPECT((parse_cpu_list("0-3,8,10-11\n") == std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT((parse_cpu_list("5") == std::vector<int>{5}));
  EXPECT(parse_cpu_list("").empty());
  EXPECT(parse_cpu_list("nonsense").empty());
  EXPECT(parse_cpu_list("-1\n").empty());
}

TEST(unknown_sockets_are_left_out) {
  const Root root;
  const auto topology = [](int cpu) { return "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/"; };
  root.write(topology(0) + "physical_package_id", "1\n");
  root.write(topology(1) + "physical_package_id", "-1\n");
  root.write(topology(2) + "physical_package_id", "0\n");
  EXPECT((sockets_of({0, 1, 2, 3}, root.path()) == std::vector<int>{0, 1}));
  EXPECT(sockets_of({1}, root.path()).empty());
}

TEST(caches_are_those_of_the_last_level) {
  const Root root;
  const auto cache = [](int cpu, int index) {
    return "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index) +
           "/shared_cpu_list";
  };
  for (const int cpu : {0, 1, 8, 9}) root.write(cache(cpu, 0), std::to_string(cpu) + "\n");
  for (const int cpu : {0, 1}) root.write(cache(cpu, 1), "0-7\n");
  for (const int cpu : {8, 9}) root.write(cache(cpu, 1), "8-15\n");
  EXPECT((caches_of({9, 1, 0}, root.path()) == std::vector<int>{0, 8}));
  EXPECT((caches_of({8, 9, 77}, root.path()) == std::vector<int>{8}));
  EXPECT(caches_of({77}, root.path()).empty());
  root.write("sys/devices/system/cpu/cpu1/node0/cpulist", "0-7\n");
  for (const int cpu : {8, 9}) {
    root.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/node1/cpulist", "8-15\n");
  }
  EXPECT((numa_nodes_of({9, 77, 1, 8}, root.path()) == std::vector<int>{0, 8}));
}

TEST(masks_have_room_for_any_cpu) {
  const std::vector<int> cpus{0, 63, 64, 1023, 1024, 5000};
  const CpuMask mask = mask_of(cpus);
  EXPECT(mask.size() == 5000 / 64 + 1 && mask[0] == (1UL | 1UL << 63) && mask[1] == 1);
  EXPECT(cpus_in(mask) == cpus);
  EXPECT(cpus_in(mask_of({})).empty());
  EXPECT(!allowed_cpus().empty());
}

TEST(ranks_take_devices_in_turn) {
  gpu::Presence four;
  four.devices = 4;
  Options chosen;
  EXPECT(device_of(5, chosen, four) == 1);
  chosen.gpus = {3, 2};
  EXPECT(device_of(0, chosen, four) == 3 && device_of(3, chosen, four) == 2);
  EXPECT(!device_of(0, chosen, gpu::Presence{}));
  Placement without;
  without.gpus.reason = "no NVIDIA driver";
  std::string refused;
  try {
    choose_device(without, chosen, 0);
  } catch (const UsageError& error) {
    refused = error.what();
  }
  EXPECT(refused == "--gpus asks for device " + std::to_string(chosen.gpus.front()) + ", but no NVIDIA driver");
}

TEST(cpus_without_siblings_are_cores) {
  const std::vector<int> absent{10001, 10002, 10003};
  EXPECT(first_threads(absent) == absent);
}

using Dealt = std::vector<std::vector<int>>;

TEST(each_rank_has_a_core_near_its_device) {
  EXPECT((distribute_cores({4, 5, 6, 7}, {{}, {}}, false) == Dealt{{4}, {5}}));
  EXPECT((distribute_cores({3, 40}, {{3}, {40}}, false) == Dealt{{3}, {40}}));
  EXPECT((distribute_cores({3, 40}, {{40}, {3}}, false) == Dealt{{40}, {3}}));
  const std::vector<int> low{0, 1, 2, 3, 64, 65, 66, 67};  // with the second hardware threads, which nobody gets
  const std::vector<int> high{32, 33, 34, 35, 96, 97, 98, 99};
  EXPECT((distribute_cores({1, 2, 32, 33}, {low, low, high, high}, false) == Dealt{{1}, {2}, {32}, {33}}));
  EXPECT((distribute_cores({1, 2, 32, 33}, {low, high, low, high}, false) == Dealt{{1}, {32}, {2}, {33}}));
}

TEST(cpu_0_is_left_to_interrupts_where_there_is_choice) {
  EXPECT((distribute_cores({0, 1, 2, 3}, {{}, {}}, false) == Dealt{{1}, {2}}));
  EXPECT((distribute_cores({0, 1}, {{}, {}}, false) == Dealt{{1}, {0}}));
  EXPECT((distribute_cores({0, 1, 32, 33}, {{0, 1}, {0, 1}}, false) == Dealt{{1}, {0}}));  // near the device
}

TEST(who_finds_no_near_core_takes_none_from_others) {
  EXPECT((distribute_cores({1, 2, 32, 33}, {{1, 2}, {1, 2}, {1, 2}, {32}}, false) == Dealt{{1}, {2}, {33}, {32}}));
  EXPECT((distribute_cores({1, 32}, {{}, {1}}, false) == Dealt{{32}, {1}}));
}

TEST(shares_are_equal_and_apart) {
  EXPECT((distribute_cores({0, 1, 2, 3, 4}, {{}, {}}, true) == Dealt{{1, 2}, {3, 4}}));
  EXPECT((distribute_cores({1, 2, 3, 4}, {{3, 4}, {1, 2}}, true) == Dealt{{3, 4}, {1, 2}}));
  EXPECT((distribute_cores({1, 2, 3, 4, 5, 6}, {{1, 2}, {1, 2, 3, 4}}, true) == Dealt{{1, 2, 5}, {3, 4, 6}}));
}

TEST(more_ranks_than_cores_are_not_bound) {
  EXPECT(distribute_cores({0, 1}, {{}, {}, {}}, false).empty());
  EXPECT(distribute_cores({0, 1}, {{}, {}, {}}, true).empty());
  EXPECT(!cpus_of_rank(0, {0, 1}, Dealt(3), false));
  EXPECT(!cpus_of_rank(1, {0, 1}, Dealt(1), false));  // the launcher's variables contradict each other
}

// Two NUMA nodes of four cores with two hardware threads each: 0-3 and 8-11, 4-7 and 12-15.
void write_two_nodes(const Root& root) {
  for (int cpu = 0; cpu < 16; ++cpu) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
    const int core = cpu % 8;
    root.write(folder + "topology/thread_siblings_list", std::to_string(core) + "," + std::to_string(core + 8) + "\n");
    root.write(folder + (core < 4 ? "node0/cpulist" : "node1/cpulist"), core < 4 ? "0-3,8-11\n" : "4-7,12-15\n");
  }
}

TEST(libraries_have_spare_cores_of_the_same_node) {
  const Root root;
  write_two_nodes(root);
  std::vector<int> all(16);
  std::iota(all.begin(), all.end(), 0);
  const auto of = [&](int rank, const std::vector<int>& allowed, const Dealt& near) {
    return *cpus_of_rank(rank, allowed, near, false, root.path());
  };
  const RankCpus first = of(0, all, {{}, {}});
  EXPECT((first.measuring == std::vector{1} && first.libraries == std::vector{1, 0, 3, 8, 11}));
  EXPECT((first.spare == std::vector{0, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15}));  // no hardware thread of cores 1 and 2
  const RankCpus far = of(1, all, {{1}, {4, 5, 6, 7}});                           // near a device of the other node
  EXPECT((far.measuring == std::vector{4} && far.libraries == std::vector{4, 5, 6, 7, 13, 14, 15}));
  // No core is spare: the other hardware threads are.
  EXPECT((of(0, {1, 2, 9, 10}, {{}, {}}).libraries == std::vector{1, 9, 10}));
  // No core of this node is spare: those of the other one are.
  EXPECT((of(0, {1, 2, 5}, {{}, {}}).libraries == std::vector{1, 5}));
  const RankCpus alone = of(0, {1, 2}, {{}, {}});
  EXPECT((alone.libraries == std::vector{1} && alone.spare.empty() && alone.shared()));
}

RankFacts rank_on(int rank, int node, std::vector<int> cores, const char* bound_by) {
  RankFacts facts;
  facts.rank = rank;
  facts.node = node;
  facts.cores = std::move(cores);
  facts.bound_by = bound_by;
  return facts;
}

TEST(a_core_that_two_ranks_have_is_noticed) {
  const RankFacts first = rank_on(0, 0, {0, 1}, "engine");
  const auto problem = [&](std::vector<RankFacts> all) {
    all.insert(all.begin(), first);
    return shared_core(all);
  };
  EXPECT(problem({rank_on(1, 0, {2, 3}, "engine")}).empty());
  EXPECT(problem({rank_on(1, 1, {0, 1}, "engine")}).empty());
  EXPECT(problem({rank_on(1, 0, {0, 1}, "nobody")}).empty());
  EXPECT(problem({rank_on(1, 1, {1}, "engine"), rank_on(2, 0, {1, 2}, "engine")}).starts_with("ranks 0 and 2 on "));
}

TEST(launchers_are_understood) {
  unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
  unsetenv("PMIX_LOCAL_RANK");
  setenv("SLURM_LOCALID", "3", 1);
  EXPECT(launch_environment().local_rank == 3);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
  EXPECT(launch_environment().local_rank == 1);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "first", 1);  // not a number: the next variable counts
  EXPECT(launch_environment().local_rank == 3);
}

TEST(launchers_with_variables_of_their_own_are_understood) {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_LOCAL_RANK", "SLURM_LOCALID"}) unsetenv(name);
  for (const char* name : {"MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID", "FLUX_TASK_LOCAL_ID",
                           "JSM_NAMESPACE_LOCAL_RANK", "PMI_LOCAL_RANK"}) {
    EXPECT(!launch_environment().local_rank);
    setenv(name, "5", 1);
    EXPECT(launch_environment().local_rank == 5);
    unsetenv(name);
  }
}

TEST(tasks_of_a_node_are_read_from_slurms_list) {
  EXPECT(tasks_on_node("4", 0) == 4);
  EXPECT(tasks_on_node("2(x3),1", 0) == 2);
  EXPECT(tasks_on_node("2(x3),1", 2) == 2);
  EXPECT(tasks_on_node("2(x3),1", 3) == 1);
  EXPECT(tasks_on_node("1,16(x2)", 2) == 16);
  for (const char* list : {"", "2(x3),1", "2(x", "2(xx3)", "two", ",", "2(x3"}) EXPECT(!tasks_on_node(list, 4));
}

TEST(ranks_of_a_step_are_known) {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) unsetenv(name);
  setenv("SLURM_NTASKS_PER_NODE", "8", 1);  // of the job
  setenv("SLURM_STEP_TASKS_PER_NODE", "2(x3),1", 1);
  EXPECT(!launch_environment().local_size);
  setenv("SLURM_NODEID", "3", 1);
  EXPECT(launch_environment().local_size == 1);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 1);  // Open MPI's mpirun inside a job of Slurm
  EXPECT(launch_environment().local_size == 4);
}

TEST(nodes_and_gpus_are_numbered) {
  Job job;
  const auto rank = [](const char* host, int node, const char* uuid) {
    RankFacts facts = rank_on(0, node, {}, "nobody");
    facts.host = host;
    if (uuid != nullptr) facts.device.emplace().uuid = uuid;
    return facts;
  };
  job.node_of = {0, 1, 0, 0, 1};
  job.take_places({rank("b", 0, "GPU-1"), rank("a", 1, "GPU-1"), rank("b", 0, "GPU-1"), rank("b", 0, nullptr),
                   rank("a", 1, "GPU-2")});
  EXPECT(job.gpu_of == std::vector({0, 1, 0, -1, 2}));
  EXPECT(job.host(3) == "b" && job.host(4) == "a" && job.name_of({0, 4}) == "pair 0-4 (b, a)");
}

}  // namespace

int main() { return test::run_all(); }
