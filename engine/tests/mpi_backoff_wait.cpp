// At 1, 2 and 4 ranks: ranks that wait while others measure sleep, and ranks that measure together do not begin from a
// sleep.
#include "benchmark/benchmark.hpp"
#include "expect.hpp"
#include "group/backoff_wait.hpp"
#include "record/records.hpp"
#include "start_mpi.hpp"

#include <time.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>

namespace volley {
BenchmarkMaker make_message_rate;
}  // namespace volley

using namespace volley;

namespace {

int sleeps = 0;
bool slept_last = false;  // and no barrier of MPI came after that

}  // namespace

// In place of the system's.
extern "C" int usleep(useconds_t time_us) {
  ++sleeps;
  slept_last = true;
  const timespec time{0, static_cast<long>(time_us) * 1000};
  return nanosleep(&time, nullptr);
}

namespace {

decltype(MPI_Barrier) barrier_of_mpi = nullptr;

int seen_barrier(MPI_Comm comm) {
  slept_last = false;
  return barrier_of_mpi(comm);
}

void ranks_begin_together(const Context& context) {
  Watchdog watchdog("rank " + std::to_string(context.rank), 60);
  const BackoffWait backoff(context, watchdog);
  const int late = context.size - 1;
  if (context.rank == late) usleep(20'000);
  sleeps = 0;
  backoff.start_together();
  EXPECT(sleeps > 0 || context.rank == late);
  EXPECT(!slept_last);
}

// Only ranks 0 and n / 2 send: the others sleep meanwhile.
void ranks_of_other_pairs_sleep(const Context& context) {
  const Json plan_document = {
      {"plan", plan_version},
      {"benchmark", "message_rate"},
      {"world_size", context.size},
      {"transports", std::vector{"host"}},
      {"options", Json{{"sizes_bytes", std::vector{1 << 16}}, {"window", 64}, {"pairs", std::vector{1}}}},
      {"sampling", Json{{"point_time_s", 0.02}}}};
  constexpr std::array benchmarks{BenchmarkEntry{"message_rate", make_message_rate}};
  const auto reading = read_plan(plan_document.text(), benchmarks);
  EXPECT(reading.errors.empty());
  Records records(nullptr);
  Watchdog watchdog("rank " + std::to_string(context.rank), 60);
  sleeps = 0;
  EXPECT(reading.benchmark->run({context, &context, reading.plan, records, watchdog}) == Exit::good);
  EXPECT(!records.failed());
  const bool sends_or_receives = context.rank % (context.size / 2) == 0;
  EXPECT(sends_or_receives || sleeps > 0);
}

}  // namespace

int main() {
  start_mpi();
  barrier_of_mpi = std::exchange(MPI_Barrier, seen_barrier);
  {
    const Context context = make_context(Options{}, place(Options{}));
    ranks_begin_together(context);
    if (context.size > 1) ranks_of_other_pairs_sleep(context);
  }
  MPI_Finalize();
  return test::finish();
}
