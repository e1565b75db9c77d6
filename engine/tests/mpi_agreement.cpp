// At 1, 2 and 4 ranks: what one rank cannot do is known to all ranks of its group, and nobody waits.
#include "benchmark/transport_set.hpp"
#include "expect.hpp"
#include "group/agreement.hpp"
#include "group/group_control.hpp"
#include "measure/sampler.hpp"
#include "start_mpi.hpp"
#include "transport/host_driven.hpp"
#include "transport/registry.hpp"
#include "transport/shared_segment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>

using namespace volley;

namespace {

constexpr std::size_t megabyte = std::size_t{1} << 20;

void reasons_are_agreed(const RankGroup& group) {
  EXPECT(agreed_reason(group, "").empty());
  EXPECT(agreed_reason(group, "all say this") == "all say this");
  const std::string last = " (rank " + std::to_string(group.ranks.back()) + ")";
  const bool is_last = group.self == group.size() - 1;
  EXPECT(agreed_reason(group, is_last ? "no room" : "") == (group.size() == 1 ? "no room" : "no room" + last));
  const std::string of_a_pair = "no room (rank 7)";  // agreed by a pair of the group before
  EXPECT(agreed_reason(group, is_last ? of_a_pair : "") == of_a_pair);
  const std::string sentence = problem_of([&] {
    agreed_step(group, [&] {
      if (is_last) throw std::runtime_error("no room");
    });
  });
  EXPECT(sentence == (group.size() == 1 ? "no room" : "no room" + last));
  EXPECT(problem_of([&] { agreed_step(group, [] {}); }).empty());
}

void a_pair_shares_a_segment(const RankGroup& pair) {
  const auto initialise = [](std::byte* segment) { segment[1] = std::byte{7}; };
  const SharedSegment segment = make_pair_segment(pair, megabyte, initialise);
  EXPECT(segment.name().empty() && segment.data()[1] == std::byte{7});
  if (pair.leads()) segment.data()[megabyte - 1] = std::byte{42};
  MPI_Barrier(pair.control.get());
  EXPECT(segment.data()[megabyte - 1] == std::byte{42});
}

// Only the first rank creates the segment; a limit on the size of files stands in for a small /dev/shm.
void no_room_is_known_to_both(const RankGroup& pair) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit limit = before;
  limit.rlim_cur = pair.leads() ? megabyte : before.rlim_cur;
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string sentence = problem_of([&] { (void)make_pair_segment(pair, 2 * megabyte, [](std::byte*) {}); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT(sentence.find("no room for a segment of 2 MiB") != std::string::npos);
  EXPECT(sentence.find("--shm-size") != std::string::npos);
  EXPECT(sentence.find("(rank " + std::to_string(pair.rank(0)) + ")") != std::string::npos);
}

void a_failed_open_can_be_closed(const RankGroup& pair) {
  const auto memory = make_host_memory();
  const auto transport = find_transport("host+unopened")->make();
  const std::string sentence = problem_of([&] { transport->open(pair, memory->reserve(8)); });
  EXPECT(sentence.find("std::bad_alloc") == 0);
  transport->close();
}

// The next lock of a window that this rank is refused, counted from 1; 0: none.
int refused_lock = 0;

decltype(MPI_Win_lock_all) lock_all_of_mpi = nullptr;

int lock_all_or_refuse(int assertion, MPI_Win window) {
  const bool refused = refused_lock > 0 && --refused_lock == 0;
  return refused ? MPI_ERR_OTHER : lock_all_of_mpi(assertion, window);
}

// Two windows of buffers and that of notifications: whichever one rank cannot lock, the other does not wait.
void a_refused_lock_is_known_to_both(const RankGroup& pair) {
  const auto memory = make_host_memory();
  const auto buffers = memory->reserve(8);
  const auto transport = find_transport("host/put")->make();
  for (const int lock : {1, 2, 3, 0}) {
    refused_lock = pair.leads() ? 0 : lock;
    const std::string sentence = problem_of([&] { transport->open(pair, buffers); });
    EXPECT(lock == 0 ? sentence.empty() : sentence.find("MPI_Win_lock_all") != std::string::npos);
    EXPECT(lock == 0 || sentence.ends_with(" (rank " + std::to_string(pair.rank(1)) + ")"));
    transport->close();
  }
}

struct FixedMemory : Memory {
  explicit FixedMemory(std::uint64_t bytes) : bytes_(bytes) {}
  Buffers reserve(std::size_t) override { return {}; }
  void release() override {}
  std::uint64_t available() const override { return bytes_; }
  void copy(std::byte*, const std::byte*, std::size_t) override {}

 private:
  void write_parts(std::span<const Part>) override {}
  std::vector<WrongBytes> compare_parts(std::span<const Part>) override { return {}; }
  std::uint64_t bytes_;
};

void memory_is_shared_out(const Context& context) {
  const FixedMemory memory(12000 +
                           1000 * static_cast<std::uint64_t>(context.rank));  // the smallest part is everybody's
  const auto share = [&](MemoryKind kind, const Memory* of) {
    return memory_share(context, kind, of, context.world.get());
  };
  EXPECT(share(MemoryKind::host, &memory) == 12000 / static_cast<std::uint64_t>(context.size));
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  EXPECT(share(MemoryKind::none, nullptr) == most);
  EXPECT(bytes_of_buffers(1) > 2 && bytes_of_buffers(most / 2) == most);
}

std::uint64_t bytes_of_own_memory = 0;
struct OwnMemoryTransport : HostDriven<MpiChannel> {
  std::unique_ptr<Memory> own_memory(const RankGroup&) override {
    return std::make_unique<FixedMemory>(bytes_of_own_memory);
  }
  std::string refuses(std::size_t bytes) const override {
    return bytes > 2 * megabyte ? "too long" : Transport::refuses(bytes);
  }
};

template <class Kind>
TransportEntry entry(const char* name, MemoryKind memory = MemoryKind::host) {
  const auto make = []() -> std::unique_ptr<Transport> { return std::make_unique<Kind>(); };
  return {name, "", ThroughMpi::yes, memory, Tier::extra, false, make};
}

// Transports of a test, between two ranks.
struct OwnTransports {
  const std::vector<TransportEntry> entries;
  Plan plan;
  Watchdog watchdog;
  TransportSet set;

  OwnTransports(const Context& context, const RankGroup& pair, std::vector<TransportEntry> those,
                double watchdog_s = 60, Plan with = {})
      : entries(std::move(those)),
        plan(std::move(with)),
        watchdog("rank " + std::to_string(context.rank), watchdog_s),
        set(context, pair, named(), watchdog,
            [this](std::string_view name) { return &*std::ranges::find(entries, name, &TransportEntry::name); }) {}

 private:
  const Plan& named() {
    for (const auto& each : entries) plan.transports.push_back(each.name);
    return plan;
  }
};

// Checking and opening three of these takes longer than the watchdog waits. If it ended it, so would this program.
struct SlowToOpen : HostDriven<MpiChannel> {
  std::string unavailable(const Context&, const RankGroup&) override {
    usleep(500'000);
    return {};
  }
  void open(const RankGroup& pair, const Buffers& buffers) override {
    usleep(500'000);
    HostDriven::open(pair, buffers);
  }
};

void each_transport_has_time_to_open(const Context& context, const RankGroup& pair) {
  OwnTransports own(context, pair, {entry<SlowToOpen>("one"), entry<SlowToOpen>("two"), entry<SlowToOpen>("three")},
                    2.5);
  own.set.open({8});
  for (const auto& candidate : own.set.candidates()) EXPECT(candidate.open);
  own.set.close();
}

// One rank cannot prepare for longer messages.
struct PreparesShortMessages : HostDriven<MpiChannel> {
  void open(const RankGroup& pair, const Buffers& buffers) override {
    leads_the_pair = pair.leads();
    HostDriven::open(pair, buffers);
  }
  void prepare(const View& view, const std::optional<Window>& window) override {
    if (!leads_the_pair && view.bytes > 8) throw std::runtime_error("no room");
    HostDriven::prepare(view, window);
  }
  bool leads_the_pair = false;
};

void a_failed_preparation_ends_only_its_transport(const Context& context, const RankGroup& pair) {
  Plan plan;
  plan.sampling.fixed = true;
  plan.sampling.iterations = 3;
  OwnTransports own(context, pair, {entry<PreparesShortMessages>("short"), entry<HostDriven<MpiChannel>>("all")}, 60,
                    plan);
  TransportSet& transports = own.set;
  transports.open({8, 16});
  const Workload workload = round_trip_workload();
  MpiControl control(pair);
  Sampler sampler(control, own.plan.sampling, workload, own.watchdog);
  for (const std::uint64_t bytes : {8, 16, 8}) {
    std::vector<Series> all;
    for (const auto& candidate : transports.candidates()) all.push_back(transports.series(candidate, bytes, true));
    sampler.measure(all);
    const std::string reason = "no room (rank " + std::to_string(pair.rank(1)) + ")";
    EXPECT(all[0].skipped == (bytes > 8 ? reason : ""));
    EXPECT(all[1].skipped.empty());
    for (const auto& series : all) EXPECT(series.first_samples.empty() == (!pair.leads() || !series.skipped.empty()));
  }
  transports.close();
}

double limit_of_waits_s = 0;
struct LimitedTransport : HostDriven<MpiChannel> {
  void limit_waits(double seconds) override { limit_s_ = seconds; }
  void open(const RankGroup& pair, const Buffers& buffers) override {
    limit_of_waits_s = limit_s_;
    HostDriven::open(pair, buffers);
  }
  double limit_s_ = 0;
};

// Well before: the sentence of the kernel must be on the screen when the watchdog ends the job.
void kernels_give_up_before_the_watchdog(const Context& context, const RankGroup& pair) {
  Plan plan;
  for (const double watchdog_s : {5.0, 60.0}) {
    plan.watchdog_s = watchdog_s;
    OwnTransports own(context, pair, {entry<LimitedTransport>("one")}, 60, plan);
    own.set.open({8});
    EXPECT(limit_of_waits_s > 0 && limit_of_waits_s < 0.75 * watchdog_s);
    own.set.close();
  }
}

// Two arenas of one kind: the buffers of a message that fit into the memory once do not fit twice.
void arenas_share_memory(const Context& context, const RankGroup& pair) {
  constexpr std::uint64_t message_bytes = megabyte;
  bytes_of_own_memory = static_cast<std::uint64_t>(context.size) * bytes_of_buffers(message_bytes) * 3 / 2;
  const auto too_large = [&](const std::vector<const char*>& names, std::uint64_t bytes) {
    std::vector<TransportEntry> entries;
    for (const char* name : names) entries.push_back(entry<OwnMemoryTransport>(name));
    OwnTransports own(context, pair, entries);
    return own.set.too_large(own.set.candidates().back(), bytes);
  };
  EXPECT(too_large({"one"}, message_bytes).empty());
  EXPECT(too_large({"one", "two"}, message_bytes).find("needs ") == 0);
  EXPECT(too_large({"one"}, 2 * megabyte + 1) == "too long");
  EXPECT(too_large({"one"}, 0) == "a message of 0 B is measured with host, aware and their requests only");
}

// What the benchmark itself takes is not there for messages. In every world the message alone would fit.
void a_benchmark_s_own_memory_is_accounted(const Context& context, const RankGroup& pair) {
  constexpr std::uint64_t message_bytes = megabyte;
  const std::uint64_t free_bytes = bytes_of_buffers(message_bytes) * 3 / 2;
  bytes_of_own_memory = static_cast<std::uint64_t>(context.size) * free_bytes;
  OwnTransports own(context, pair, {entry<OwnMemoryTransport>("one")});
  TransportSet& transports = own.set;
  Candidate& candidate = transports.candidates().front();
  transports.leave(MemoryKind::device, free_bytes);
  EXPECT(transports.too_large(candidate, message_bytes).empty());
  // One rank needs it, and both skip the size.
  transports.leave(MemoryKind::host, pair.leads() ? 0 : bytes_of_buffers(message_bytes) * 3 / 4);
  EXPECT(transports.too_large(candidate, message_bytes).starts_with("needs "));
  EXPECT(candidate.reason.empty());
  transports.leave(MemoryKind::host, free_bytes);
  EXPECT(candidate.reason.starts_with("needs "));
}

// Takes this part of the host memory that a rank has, in a window both ways twice as much.
double part_of_host_memory = 0;
struct StagingTransport : HostDriven<MpiChannel> {
  std::string unavailable(const Context& context, const RankGroup&) override {
    local_ranks_ = context.local_size;
    return {};
  }
  std::uint64_t host_memory_bytes(std::uint64_t, const std::optional<Window>& window) const override {
    const double all = static_cast<double>(available_memory_bytes()) / local_ranks_;
    return static_cast<std::uint64_t>(part_of_host_memory * all) * (window ? 2 : 1);
  }
  int local_ranks_ = 1;
};

// Transports that stage messages take host memory at the same time: the first ones get it.
void host_memory_is_shared_out_too(const Context& context, const RankGroup& pair) {
  OwnTransports own(
      context, pair,
      {entry<StagingTransport>("one", MemoryKind::none), entry<StagingTransport>("two", MemoryKind::none)});
  TransportSet& transports = own.set;
  const auto fits = [&](std::size_t which, double part, const std::optional<Window>& window) {
    part_of_host_memory = part;
    const std::string reason = transports.too_large(transports.candidates()[which], 8, window);
    EXPECT(reason.empty() ||
           (reason.starts_with("needs ") && reason.find(" of host memory on each rank, ") != std::string::npos));
    return reason.empty();
  };
  EXPECT(fits(0, 0.4, {}) && fits(1, 0.4, {}));
  EXPECT(fits(0, 0.6, {}) && !fits(1, 0.6, {}));
  EXPECT(!fits(0, 1.5, {}) && !fits(0, 0.6, Window{}));
}

void some_transports_are_ruled_out(const Context& context) {
  Plan plan;
  plan.excluded["host"] = "ends the process";
  EXPECT(ruled_out(context, {0, 1}, plan, *find_transport("host")) == "ends the process");
  EXPECT(ruled_out(context, {0}, plan, *find_transport("host")).empty());
  EXPECT(ruled_out(context, {0, 1}, plan, *find_transport("null")).empty());
  if (context.gpus.devices == 0) EXPECT(ruled_out(context, {0}, plan, *find_transport("peer")) == context.gpus.reason);
}

// As words of 8 bytes, where that is possible.
void long_messages_are_counted() {
  struct Channel : MpiChannel {
    std::pair<int, MPI_Datatype> counted(std::size_t bytes) {
      prepare({nullptr, nullptr, bytes});
      return {elements_, type_};
    }
  } channel;
  constexpr int most = std::numeric_limits<int>::max();
  EXPECT(channel.counted(most) == std::pair(most, MPI_BYTE));
  EXPECT(channel.counted(std::size_t{1} << 31) == std::pair(1 << 28, MPI_INT64_T));
  EXPECT(channel.counted(std::size_t{8} * most) == std::pair(most, MPI_INT64_T));
  for (const std::size_t bytes : {(std::size_t{1} << 31) + 1, std::size_t{8} * most + 8}) {
    const auto [elements, type] = channel.counted(bytes);
    EXPECT(elements == 1 && type != MPI_BYTE && type != MPI_INT64_T);
  }
  channel.close();
}

void a_shared_gpu_has_a_remedy() {
  Context context;
  context.gpu_of = {0, 0};
  Plan plan;
  const auto reason = [&](int devices) {
    context.gpus.devices = devices;
    return ruled_out(context, {0, 1}, plan, *find_transport("peer"));
  };
  EXPECT(reason(1) == "ranks 0 and 1 are on one GPU: --share-gpu allows that");
  EXPECT(reason(2) == "ranks 0 and 1 are on one GPU: --share-gpu allows that, and --gpus chooses others");
  plan.share_device = true;
  EXPECT(reason(1) == find_transport("peer")->missing);
}

}  // namespace

int main() {
  start_mpi();
  lock_all_of_mpi = std::exchange(MPI_Win_lock_all, lock_all_or_refuse);
  {
    const Context context = make_context(Options{}, place(Options{}));
    reasons_are_agreed(everyone(context));
    memory_is_shared_out(context);
    some_transports_are_ruled_out(context);
    a_shared_gpu_has_a_remedy();
    long_messages_are_counted();
    if (context.size > 1) {
      const auto pair = make_group(context, {0, context.size - 1});
      if (pair) {
        reasons_are_agreed(*pair);
        a_pair_shares_a_segment(*pair);
        no_room_is_known_to_both(*pair);
        a_failed_open_can_be_closed(*pair);
        a_refused_lock_is_known_to_both(*pair);
      }
      if (context.size == 2) {  // the others would only wait, at the cost of a core each
        arenas_share_memory(context, *pair);
        a_benchmark_s_own_memory_is_accounted(context, *pair);
        host_memory_is_shared_out_too(context, *pair);
        kernels_give_up_before_the_watchdog(context, *pair);
        each_transport_has_time_to_open(context, *pair);
        a_failed_preparation_ends_only_its_transport(context, *pair);
      }
      MPI_Barrier(context.world.get());
    }
  }
  MPI_Finalize();
  return test::finish();
}
