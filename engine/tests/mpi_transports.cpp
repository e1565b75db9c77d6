// At 1, 2 and 4 ranks: who is where, and small agreements; at 2 every host transport through the sampler, at 4 one.
#include "benchmark/transport_set.hpp"
#include "expect.hpp"
#include "gpu/gpu.hpp"
#include "group/group_control.hpp"
#include "measure/sampler.hpp"
#include "measure/series.hpp"
#include "mpi/mpi.hpp"
#include "start_mpi.hpp"
#include "transport/host_driven.hpp"
#include "transport/registry.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <utility>

using namespace volley;

namespace {

void ranks_know_each_other(const Context& context) {
  EXPECT(static_cast<int>(context.records.size()) == (context.rank == 0 ? context.size : 0));
  for (int rank = 0; rank < context.size; ++rank) {
    const RankFacts& facts = context.facts(rank);
    EXPECT(facts.rank == rank && !facts.cores.empty() && facts.host == context.host(rank));
    EXPECT(context.node(rank) == 0 && (context.gpu(rank) >= 0) == facts.device.has_value());
    if (context.rank > 0) continue;  // the first rank alone keeps the records of all
    const auto record = nlohmann::json::parse(context.records[static_cast<std::size_t>(rank)].text());
    EXPECT(record.at("local_rank") == rank && record.at("node") == 0 && record.at("pid") > 0);
    EXPECT(record.at("memory_available_bytes") > 0);
  }
  EXPECT(context.local_size == context.size);
}

// A launcher whose variables nobody knows: what they would have said comes from MPI.
void ranks_without_variables_know_their_place() {
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID",
        "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID", "PMIX_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_RANK", "PMI_LOCAL_RANK"}) {
    unsetenv(name);
  }
  Options options;
  options.bind = true;
  const Placement placement = place(options);
  EXPECT(!placement.local_rank && !placement.device && !placement.bound);
  const Context context = make_context(options, placement);
  const RankFacts& mine = context.facts(context.rank);
  EXPECT(context.local_rank == context.rank);
  if (context.rank == 0) {
    const auto record = nlohmann::json::parse(context.records[0].text());
    EXPECT(record.at("device_chosen_late") == mine.device.has_value());
  }
  if (mine.device) EXPECT(mine.device->index == context.rank % context.gpus.devices);
}

void agreements(const Context& context) {
  for (int root = 0; root < context.size; ++root) {
    const std::string text = mpi::broadcast(
        context.rank == root ? std::string(static_cast<std::size_t>(root), 'x') : "?", root, context.world.get());
    EXPECT(text == std::string(static_cast<std::size_t>(root), 'x'));
    EXPECT(mpi::broadcast_value(context.rank, root, context.world.get()) == root);
  }
  const auto texts = mpi::all_gather(std::string(static_cast<std::size_t>(context.rank), 'y'), context.world.get());
  for (std::size_t rank = 0; rank < texts.size(); ++rank) EXPECT(texts[rank] == std::string(rank, 'y'));
}

// How transports are measured.
struct Way {
  Workload workload;
  bool both;
  std::uint64_t verified;        // messages of one fixed batch, and of two exchanges after it
  std::uint64_t room_bytes = 0;  // for the places of the messages of a batch; 0: they have one
};

// Every size of every transport of the plan, measured by the pair; complete on the first rank.
std::vector<Series> measured(const Context& context, const RankGroup& pair, const Plan& plan, const Way& way,
                             const std::vector<std::uint64_t>& sizes) {
  Watchdog watchdog("rank " + std::to_string(context.rank), 60);
  TransportSet transports(context, pair, plan, watchdog);
  transports.open(sizes);
  MpiControl control(pair);
  Sampler sampler(control, plan.sampling, way.workload, watchdog);
  std::vector<Series> all;
  for (const auto bytes : sizes) {
    std::vector<Series> of_size;
    for (const auto& candidate : transports.candidates()) {
      std::uint64_t taken = bytes;  // or less, where the transport has no messages of this length
      while (!candidate.transport->refuses(taken).empty()) --taken;
      Series& series = of_size.emplace_back(transports.series(candidate, taken, true));
      const bool stays = way.room_bytes == 0 || !candidate.transport->keeps_place().empty();
      if (!stays) series.view = with_places(series.view, way.room_bytes);
    }
    sampler.measure(of_size);
    for (auto& series : of_size) all.push_back(std::move(series));
  }
  transports.close();
  return all;
}

// Whether the transport has a fault, which must show.
bool broken(const Series& series) { return find_transport(series.name)->fault != Fault::none; }

void judge(const Series& series, const Way& way, const Sampling& sampling, int receiver) {
  if (series.mismatch.has_value() != broken(series)) {
    std::fprintf(stderr, "%s, %zu B: %s\n", series.name.c_str(), series.view.bytes,
                 series.mismatch ? "a mismatch where none is" : "no mismatch found");
  }
  EXPECT(series.mismatch.has_value() == broken(series));
  EXPECT((series.ended_by == EndedBy::failure) == broken(series));
  const auto& samples = series.first_samples;
  EXPECT(!samples.empty() && std::all_of(samples.begin(), samples.end(), [](double s) { return s > 0; }));
  EXPECT(series.second_samples.size() == (way.both ? samples.size() : 0));
  EXPECT(std::accumulate(series.visits.begin(), series.visits.end(), std::size_t{0}) == samples.size());
  EXPECT(series.work_s.size() == series.visits.size());
  EXPECT(std::all_of(series.work_s.begin(), series.work_s.end(), [](double s) { return s > 0; }));
  const bool one_way = way.workload.messages[1] == 0;
  EXPECT(!series.mismatch || !one_way || series.mismatch->rank == receiver);
  const std::uint64_t in_pass = series.pass.counts * series.pass.in_flight * (one_way ? 1 : 2);
  if (sampling.fixed && !series.mismatch) EXPECT(series.messages_verified == way.verified + in_pass);
  if (!series.mismatch) EXPECT(series.pass.counts >= way.workload.pass_counts);
  if (sampling.fixed) EXPECT(samples.size() == 1 && series.count == sampling.iterations);
  if (!sampling.fixed && !series.mismatch) EXPECT(samples.size() >= 6 && series.visits.size() >= 3);
  const std::uint64_t of_count = way.workload.messages[0] + way.workload.messages[1];
  const std::uint64_t ends = way.workload.window ? 1 : series.sharers;  // each thread makes all round trips
  if (sampling.fixed) EXPECT(series.messages_timed == ends * of_count * sampling.iterations);
  EXPECT(series.messages_timed >= samples.size());
}

// Those of host memory with threads, or those without, each with every fault that verification finds, or without a
// fault.
std::vector<std::string> host_transports(const std::vector<std::string>& with, bool threads) {
  std::vector<std::string> names;
  for (const auto& entry : registry()) {
    if (entry.memory != MemoryKind::host || entry.name.starts_with("host/threads/") != threads) continue;
    if (entry.name == "host/partitioned" && MPI_Pready == nullptr) continue;  // before MPI 4.0
    for (const auto& fault : with) names.push_back(entry.name + fault);
  }
  return names;
}

// `name` with each of these faults.
std::vector<std::string> with(const std::string& name, std::vector<std::string> faults) {
  for (auto& fault : faults) fault = name + fault;
  return faults;
}

// Broken transports must be caught in every way of measuring; sound ones must pass in each.
void transports_tell_the_truth(const Context& context, const RankGroup& pair, const std::vector<std::string>& names,
                               const std::vector<std::uint64_t>& sizes, const std::vector<bool>& samplings) {
  const Window there{.messages = 4, .direction = Direction::uni};
  const Window both{.messages = 4, .direction = Direction::bi};
  constexpr std::uint64_t room = std::uint64_t{1} << 20;
  for (const Way& way : {Way{round_trip_workload(), false, 1 + 2}, Way{window_workload(there), false, 1},
                         Way{window_workload(both), true, 2}, Way{round_trip_workload(), false, 0, room},
                         Way{window_workload(both), true, 0, room}}) {
    for (const bool fixed : samplings) {
      if (fixed && way.room_bytes > 0) continue;
      Plan plan;
      plan.transports = names;
      plan.sampling.fixed = fixed;
      plan.sampling.iterations = 5;
      plan.sampling.point_time_s = 0.02;
      const auto all = measured(context, pair, plan, way, sizes);
      EXPECT(all.size() == plan.transports.size() * sizes.size());
      if (!pair.leads()) continue;
      for (const auto& series : all) {
        if (series.skipped.find("needs a core of its own") != std::string::npos) continue;
        if (series.name.ends_with("+unopened"))
          EXPECT(series.skipped == "could not be opened: std::bad_alloc (rank " + std::to_string(pair.rank(1)) + ")");
        else judge(series, way, plan.sampling, pair.rank(1));
      }
    }
  }
}

// An exchange that takes so long that the message before serves as the poison. After `moving` exchanges nothing moves.
struct LongChannel : MpiChannel {
  explicit LongChannel(int moving) : messages_that_move(2 * moving) {}
  void send(const View& view) {
    usleep(30'000);
    if (messages++ < messages_that_move) MpiChannel::send(view);
  }
  void recv(const View& view) {
    if (messages++ < messages_that_move) MpiChannel::recv(view);
    else usleep(30'000);  // it stays a long exchange
  }
  int messages_that_move;
  int messages = 0;
};

// One point of a transport of this test, measured by the pair; complete on the first rank.
Series point_of(Transport& transport, const Context& context, const RankGroup& pair, const Sampling& sampling,
                const Workload& workload, double watchdog_s, MemoryKind kind = MemoryKind::host) {
  constexpr std::size_t bytes = 100;
  Watchdog watchdog("rank " + std::to_string(context.rank), watchdog_s);
  const auto memory = make_host_memory();
  const Buffers buffers = memory->reserve(bytes);
  transport.open(pair, buffers);
  std::vector<Series> points(1);
  points[0].name = "host";
  points[0].memory = kind;
  points[0].driver = transport.messages();
  points[0].verifier = memory.get();
  points[0].view = {buffers.send, buffers.recv, bytes};
  points[0].fresh = true;
  MpiControl control(pair);
  Sampler(control, sampling, workload, watchdog).measure(points);
  transport.close();
  return points[0];
}

// The one buffer of a fixed batch on a device begins where messages between two buffers are sent from.
void requests_are_of_both_places(const Context& context, const RankGroup& pair) {
  Sampling fixed;
  fixed.fixed = true;
  const auto transport = find_transport("host/persistent")->make();
  const Series series = point_of(*transport, context, pair, fixed, round_trip_workload(), 60, MemoryKind::device);
  if (pair.leads()) EXPECT(!series.mismatch && series.messages_verified > 0);
}

Series long_series(const Context& context, const RankGroup& pair, int moving) {
  HostDriven<LongChannel> transport(moving);
  return point_of(transport, context, pair, Sampling{}, round_trip_workload(), 60);
}

// The cold exchange, two to calibrate and one untimed at most come first; the last to move something is a sample's.
void an_older_message_does_not_pass(const Context& context, const RankGroup& pair) {
  const Series sound = long_series(context, pair, 1000);
  EXPECT(!sound.mismatch && sound.messages_verified > 0);
  for (const int moving : {5, 6}) {
    const Series stale = long_series(context, pair, moving);
    if (pair.leads()) EXPECT(stale.mismatch && stale.mismatch->wrong_bytes == 100 && stale.first_samples.size() >= 2);
  }
}

// Healthy batches that take twice as long as the watchdog waits. Were they ended, so would this program be.
void a_long_fixed_batch_is_not_ended(const Context& context, const RankGroup& pair) {
  struct SlowChannel : MpiChannel {
    void send(const View& view) {
      usleep(50'000);
      MpiChannel::send(view);
    }
    void start_send(const View& view) {
      usleep(50'000);
      MpiChannel::start_send(view);
    }
  };
  Sampling sampling;
  sampling.fixed = true;
  sampling.warmup = 0;
  sampling.iterations = 10;
  HostDriven<SlowChannel> transport;
  const Series there_and_back = point_of(transport, context, pair, sampling, round_trip_workload(), 0.5);
  EXPECT(there_and_back.cold_s && there_and_back.cold_s >= 0.05);
  const Series windows =
      point_of(transport, context, pair, sampling, window_workload({.messages = 2, .direction = Direction::uni}), 0.5);
  if (pair.leads()) EXPECT(windows.count == 10 && windows.first_samples.at(0) >= 0.1);
}

// A transport that loses what shares a buffer with what is sent, as both do in a fixed batch of round trips.
void a_loss_in_the_one_buffer_is_found(const Context& context, const RankGroup& pair) {
  struct InPlaceChannel : MpiChannel {
    void recv(const View& view) {
      std::array<std::byte, 100> elsewhere{};
      MpiChannel::recv({nullptr, view.recv == view.send ? elsewhere.data() : view.recv, view.bytes});
    }
  };
  Sampling sampling;
  sampling.fixed = true;
  HostDriven<InPlaceChannel> transport;
  const Series lost = point_of(transport, context, pair, sampling, round_trip_workload(), 60);
  if (pair.leads()) EXPECT(lost.mismatch && lost.mismatch->rank == pair.rank(1));
}

// The kernel's page of zeros, which is what memory that was never written reads as, is in every cache.
void what_is_sent_was_written(const Context& context, const RankGroup& pair) {
  constexpr std::size_t bytes = 100'000;
  for (const auto& workload : {round_trip_workload(), window_workload({})}) {
    for (const bool fixed : {false, true}) {
      Watchdog watchdog("rank " + std::to_string(context.rank), 60);
      Plan plan;
      plan.transports = {"host"};
      plan.sampling.fixed = fixed;
      plan.sampling.point_time_s = 0.02;
      TransportSet transports(context, pair, plan, watchdog);
      transports.open({bytes});
      std::vector<Series> points{transports.series(transports.candidates()[0], bytes, false)};
      const std::span<const std::byte> sent(points[0].view.send, bytes);
      MpiControl control(pair);
      Sampler(control, plan.sampling, workload, watchdog).measure(points);
      EXPECT(std::count(sent.begin(), sent.end(), std::byte{0}) < static_cast<std::ptrdiff_t>(bytes / 100));
      EXPECT(points[0].messages_verified == 0);
      transports.close();
    }
  }
}

}  // namespace

int main() {
  const bool threads = std::getenv("VOLLEY_TEST_THREADS") != nullptr;  // these alone: partitioned messages forbid them
  start_mpi(threads);
  {
    const Context context = make_context(Options{}, place(Options{}));
    ranks_know_each_other(context);
    agreements(context);
    // The outermost two ranks: with four, two are left out and must not be waited for.
    if (context.size > 1) {
      const auto pair = make_group(context, {0, context.size - 1});
      EXPECT(pair.has_value() == (context.rank == 0 || context.rank == context.size - 1));
      // What a fault does to a transport is the same however it is sampled, which is tried with one of them.
      const std::vector<std::string> found{"+flip", "+early", "+late", "+lose", "+swap", "+echo", "+unopened"};
      if (context.size == 4 && pair)
        transports_tell_the_truth(context, *pair, {"host", "host+flip"}, {8}, {false, true});
      if (context.size == 2) {
        transports_tell_the_truth(context, *pair, host_transports({""}, threads), {70000}, {false, true});
        transports_tell_the_truth(context, *pair, host_transports(found, threads), {100}, {true});
      }
      if (context.size == 2 && !threads) {
        transports_tell_the_truth(context, *pair, {"host", "host+flip", "host+late", "host+lose", "host+swap"}, {1, 8},
                                  {false, true});
        transports_tell_the_truth(context, *pair, with("host", found), {100, 70000}, {false});
        an_older_message_does_not_pass(context, *pair);
        a_loss_in_the_one_buffer_is_found(context, *pair);
        requests_are_of_both_places(context, *pair);
        a_long_fixed_batch_is_not_ended(context, *pair);
        what_is_sent_was_written(context, *pair);
      }
      MPI_Barrier(context.world.get());
    }
  }
  ranks_without_variables_know_their_place();
  MPI_Finalize();
  return test::finish();
}
