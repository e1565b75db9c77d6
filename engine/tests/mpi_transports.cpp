// At 1, 2 and 4 ranks: who is where, small agreements, and every host transport through the sampler.
#include "benchmark/transport_set.hpp"
#include "benchmark/workloads.hpp"
#include "check_test.hpp"
#include "group/mpi_control.hpp"
#include "measure/memory.hpp"
#include "measure/sampler.hpp"
#include "mpi/text.hpp"
#include "transport/host_driven.hpp"
#include "transport/mpi_channel.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <string>

using namespace volley;

namespace {

void ranks_know_each_other(const Context& context) {
  EXPECT(static_cast<int>(context.ranks.size()) == context.size);
  for (int rank = 0; rank < context.size; ++rank) {
    const RankFacts& facts = context.ranks[static_cast<std::size_t>(rank)];
    EXPECT(facts.rank == rank && facts.node == 0 && facts.local_rank == rank);
    EXPECT(!facts.cores.empty() && !facts.host.empty() && facts.pid > 0 && facts.memory_available_bytes > 0);
  }
  EXPECT(context.local_size == context.size);
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

// Every point of `plan`, measured by the pair; complete on the first rank.
std::vector<Series> measured(const Context& context, const RankGroup& pair, const Plan& plan, Watchdog& watchdog) {
  const Workload workload = plan.benchmark == Benchmark::stream ? stream_workload(plan.window) : pingpong_workload();
  TransportSet transports(context, pair, plan);
  transports.open(plan.sizes_bytes);
  MpiControl control(pair);
  Sampler sampler(control, plan.sampling, workload, watchdog);
  std::vector<Series> all;
  for (const auto bytes : plan.sizes_bytes) {
    std::vector<Series> points;
    for (const auto& candidate : transports.candidates()) points.push_back(transports.series(candidate, bytes, true));
    sampler.measure(points);
    for (auto& point : points) all.push_back(std::move(point));
  }
  transports.close();
  return all;
}

// Whether the point's transport breaks something that shows: one exchange is all that `early` makes, and the tutorial's
// one buffer, off which all messages bounce, holds what it should after it.
bool broken(const Series& point, const Plan& plan) {
  const std::string name = point.name;
  const bool one_buffer = plan.sampling.fixed && plan.benchmark == Benchmark::pingpong;
  return name == "corrupt" || name == "echo" || (name == "early" && point.count > 1 && !one_buffer);
}

void judge(const std::vector<Series>& points, const Plan& plan) {
  EXPECT(points.size() == plan.transports.size() * plan.sizes_bytes.size());
  for (const auto& point : points) {
    if (point.mismatch.has_value() != broken(point, plan)) {
      std::fprintf(stderr, "%s, %zu B: %s\n", point.name.c_str(), point.view.bytes,
                   point.mismatch ? "a mismatch where none is" : "no mismatch found");
    }
    EXPECT(point.mismatch.has_value() == broken(point, plan));
    EXPECT(!point.rank0_samples.empty());
    EXPECT(std::all_of(point.rank0_samples.begin(), point.rank0_samples.end(), [](double s) { return s > 0; }));
    const bool both = plan.benchmark == Benchmark::stream && plan.window.direction == Direction::bi;
    EXPECT(point.rank1_samples.size() == (both ? point.rank0_samples.size() : 0));
    if (plan.sampling.fixed) EXPECT(point.rank0_samples.size() == 1 && point.count == plan.sampling.iterations);
    if (!plan.sampling.fixed && !broken(point, plan)) EXPECT(point.rank0_samples.size() >= 6);
    EXPECT(point.messages_timed >= point.rank0_samples.size());
  }
}

// Broken transports must be caught in every way of measuring; sound ones must pass in each.
void transports_tell_the_truth(const Context& context, const RankGroup& pair) {
  Watchdog watchdog("rank " + std::to_string(context.rank), 60);
  for (const auto& [benchmark, direction] : {std::pair{Benchmark::pingpong, Direction::uni},
                                             {Benchmark::stream, Direction::uni},
                                             {Benchmark::stream, Direction::bi}}) {
    for (const bool fixed : {false, true}) {
      Plan plan;
      plan.benchmark = benchmark;
      plan.window = {.messages = 4, .direction = direction};
      plan.transports = {"host", "corrupt", "early", "echo"};
      plan.sizes_bytes = {1, 8, 100, 70000};
      plan.sampling.fixed = fixed;
      plan.sampling.iterations = 3;
      plan.sampling.point_time_s = 0.02;
      const auto points = measured(context, pair, plan, watchdog);
      if (pair.leads()) judge(points, plan);
      // On a machine at work an adaptive batch may be one exchange long; here there are three.
      if (pair.leads() && fixed && benchmark == Benchmark::stream) {
        EXPECT(std::count_if(points.begin(), points.end(), [&](const Series& point) { return broken(point, plan); }) ==
               static_cast<std::ptrdiff_t>(3 * plan.sizes_bytes.size()));
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
  }
  int messages_that_move;
  int messages = 0;
};

Series long_series(const Context& context, const RankGroup& pair, int moving, std::size_t bytes) {
  Watchdog watchdog("rank " + std::to_string(context.rank), 60);
  Plan plan;
  const Workload workload = pingpong_workload();
  const auto memory = make_host_memory();
  const Buffers buffers = memory->reserve(bytes);
  HostDriven<LongChannel> transport(moving);
  transport.open(context, pair, buffers, bytes);
  std::vector<Series> points(1);
  points[0].name = "host";
  points[0].memory = MemoryKind::host;
  points[0].driver = &transport;
  points[0].verifier = memory.get();
  points[0].view = {buffers.send, buffers.recv, bytes};
  points[0].fresh = true;
  MpiControl control(pair);
  Sampler(control, plan.sampling, workload, watchdog).measure(points);
  transport.close();
  return points[0];
}

// The cold exchange, two to calibrate and one untimed at most come first; the last to move something is a sample's.
void an_older_message_does_not_pass(const Context& context, const RankGroup& pair) {
  const Series sound = long_series(context, pair, 1000, 100);
  EXPECT(!sound.mismatch && sound.messages_verified > 0);
  for (const int moving : {5, 6}) {
    const Series stale = long_series(context, pair, moving, 100);
    if (pair.leads()) EXPECT(stale.mismatch && stale.mismatch->wrong_bytes == 100 && stale.rank0_samples.size() >= 2);
  }
}

}  // namespace

int main() {
  MPI_Init(nullptr, nullptr);
  {
    const Context context = make_context(Options{}, place(Options{}));
    ranks_know_each_other(context);
    agreements(context);
    // The outermost two ranks: with four, two are left out and must not be waited for.
    if (context.size > 1) {
      const auto pair = make_group(context, {0, context.size - 1});
      EXPECT(pair.has_value() == (context.rank == 0 || context.rank == context.size - 1));
      if (pair) transports_tell_the_truth(context, *pair);
      if (pair) an_older_message_does_not_pass(context, *pair);
      MPI_Barrier(context.world.get());
    }
    int failures = test::failures();
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, context.world.get());
    test::failures() = failures;
  }
  MPI_Finalize();
  return test::finish();
}
