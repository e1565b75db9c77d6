// At 1, 2 and 4 ranks: every grid, thread count and kind of overlap gives the same field bit for bit; a NaN stops it.
#include "expect.hpp"
#include "jacobi/host_solver.hpp"
#include "jacobi/transport_solve.hpp"
#include "machine/placement.hpp"
#include "start_mpi.hpp"
#include "transport/host_driven.hpp"
#include "transport/registry.hpp"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace volley;
using namespace volley::jacobi;

namespace {

constexpr std::int64_t wide = 48;
constexpr std::int64_t high = 40;

// The whole field after `iterations`, by the plainest loop there is.
template <class Real>
std::vector<Real> plainly(std::uint64_t iterations) {
  const Grid grid({1, 1}, {wide, high}, 0);
  std::vector<Real> now(static_cast<std::size_t>(wide * high));
  const auto at = [](std::int64_t x, std::int64_t y) { return static_cast<std::size_t>(y * wide + x); };
  for (std::int64_t y = 0; y < high; ++y) {
    for (const std::int64_t x : {std::int64_t{0}, wide - 1})
      now[at(x, y)] = static_cast<Real>(boundary_value(grid, x, y));
  }
  for (std::uint64_t i = 0; i < iterations; ++i) {
    std::vector<Real> next = now;
    for (std::int64_t y = 1; y < high - 1; ++y) {
      for (std::int64_t x = 1; x < wide - 1; ++x) {
        next[at(x, y)] =
            Real(0.25) * ((now[at(x - 1, y)] + now[at(x + 1, y)]) + (now[at(x, y - 1)] + now[at(x, y + 1)]));
      }
    }
    now = next;
  }
  return now;
}

template <class Real>
struct RankSolver {
  Grid grid;
  Halos halos;
  HostSolver<Real> solver;
  RankSolver(const Context& context, const JacobiOptions& options, const char* transport = "host")
      : grid(options.grid, options.domain, context.rank),
        halos(context, grid, *find_transport(transport), sizeof(Real)),
        solver(context, options, grid, halos) {
    EXPECT(halos.unavailable().empty());
    EXPECT(halos.open(30).empty());
    EXPECT(halos.verify_pattern() > 0 && !halos.wrong());
  }
};

template <class Real>
void the_field_is_the_same(const Context& context, const JacobiOptions& options, const char* transport) {
  RankSolver<Real> run(context, options, transport);
  EXPECT(run.solver.threads() == options.threads);
  EXPECT(run.solver.advance(7) == 7);
  EXPECT(run.solver.advance(1000) == options.iterations - 7 && run.solver.iterations() == options.iterations);
  run.halos.compare();
  EXPECT(!run.halos.wrong());
  const auto expected = plainly<Real>(options.iterations);
  bool same = true;
  for (std::int64_t y = 0; y < run.grid.rows; ++y) {
    const auto first = static_cast<std::size_t>((run.grid.first_row() + y) * wide + run.grid.first_column());
    same = same && std::memcmp(run.solver.field().now().row(y), expected.data() + first,
                               sizeof(Real) * static_cast<std::size_t>(run.grid.columns)) == 0;
  }
  EXPECT(same);
  run.halos.close();
}

template <class Real>
void a_nan_stops_it(const Context& context, JacobiOptions options) {
  options.iterations = 50;
  options.threads = 2;
  RankSolver<Real> run(context, options);
  EXPECT(run.solver.advance(3) == 3);
  const bool last = context.rank == context.size - 1;
  if (last) run.solver.field().now().row(5)[2] = std::numeric_limits<Real>::quiet_NaN();
  EXPECT(run.solver.advance(50) == 1 && run.solver.residuals().broken() && !run.solver.residuals().converged() &&
         run.solver.iterations() == 4);
  const auto where = run.solver.first_broken();
  EXPECT(where.has_value() == last);
  if (where) EXPECT((*where)[0] == run.grid.first_column() + 2 && (*where)[1] == run.grid.first_row() + 4);
  run.halos.close();
}

void the_end_is_where_the_plan_says(const Context& context, JacobiOptions options) {
  options.iterations = 10000;
  options.tolerance = 1e-3;
  options.check_every = 1;
  options.threads = 1;
  RankSolver<double> every(context, options);
  const auto needed = every.solver.advance(options.iterations);
  EXPECT(every.solver.residuals().converged() && needed == every.solver.iterations() && needed < options.iterations);
  EXPECT(every.solver.residuals().kept().back().iteration == needed - 1 &&
         every.solver.residuals().kept().back().value <= 1e-3);
  every.halos.close();
  options.check_every = 64;  // residuals of iterations 0, 64, 128, ...
  RankSolver<double> seldom(context, options);
  EXPECT(seldom.solver.advance(options.iterations) == (needed - 1 + 63) / 64 * 64 + 1 &&
         seldom.solver.residuals().converged());
  seldom.halos.close();
}

void on_every_grid(const Context& context) {
  for (int across = 1; across <= context.size; ++across) {
    if (context.size % across != 0) continue;
    JacobiOptions options;
    options.grid = {across, context.size / across};
    options.domain = {wide / options.grid[0], high / options.grid[1]};
    options.iterations = 40;
    for (const bool overlap : {false, true}) {
      options.overlap = overlap;
      for (const int threads : {1, 2, 3}) {
        options.threads = threads;
        for (const char* transport : {"host", "host/vector"}) {
          the_field_is_the_same<double>(context, options, transport);
          the_field_is_the_same<float>(context, options, transport);
        }
      }
    }
    a_nan_stops_it<double>(context, options);
    a_nan_stops_it<float>(context, options);
    the_end_is_where_the_plan_says(context, options);
  }
}

// The entry of a transport of this test.
template <class Kind>
const TransportEntry entry_of{
    "test", "", ThroughMpi::yes, MemoryKind::host, Tier::extra, true, [] { return std::make_unique<Kind>(); }};

struct NeverOpened : MpiTransport {
  void open(const RankGroup&, const Buffers&) override { EXPECT(!"opened without buffers"); }
  void close() override { EXPECT(!"closed although it was never opened"); }
};

// Halos that no memory has room for: there is a reason, and their transport is neither opened nor closed.
void without_memory_there_is_a_reason(const Context& context) {
  const Grid grid({context.size, 1}, {8, std::int64_t{1} << 50}, context.rank);
  Halos halos(context, grid, entry_of<NeverOpened>, sizeof(double));
  EXPECT(halos.open(30).empty() == halos.none());
  halos.close();
}

// The second rank of a pair cannot open it; to prepare for halos both would have to meet.
struct HalfOpened : MpiTransport {
  void open(const RankGroup& pair, const Buffers& buffers) override {
    control_ = pair.control.get();
    if (!pair.leads()) throw std::runtime_error("no room");
    HostDriven::open(pair, buffers);
  }
  void open_halo(const View&) override { MPI_Barrier(control_); }
  MPI_Comm control_ = MPI_COMM_NULL;
};

void nobody_waits_for_halos_that_the_other_rank_cannot_open(const Context& context) {
  const Grid grid({context.size, 1}, {8, 8}, context.rank);
  Halos halos(context, grid, entry_of<HalfOpened>, sizeof(double));
  const std::string reason = halos.open(30);
  EXPECT(halos.none() || (reason.starts_with("no room (rank ") && reason.ends_with(")")));
  halos.close();
}

// The halos after that of the pattern take longer than the watchdog waits.
struct SlowHalos : MpiTransport {
  void finish() override {
    if (++halos_ >= 2) usleep(1'600'000);
    MpiTransport::finish();
  }
  int halos_ = 0;
};

// From the second iteration on no halo moves. They are all zeros, as those before.
struct StoppingHalos : MpiTransport {
  void start(const View& view) override {
    if (++halos_ <= 2) MpiTransport::start(view);
  }
  int halos_ = 0;
};

// The record of a solve through a transport of this test, with a watchdog of a second.
Json solved(const Context& context, const std::array<std::int64_t, 2>& domain, const TransportEntry& entry) {
  JacobiOptions options;
  options.grid = {context.size, 1};
  options.domain = domain;
  options.iterations = 3;
  options.threads = 1;
  const RankGroup all = everyone(context);
  const Grid grid(options.grid, options.domain, context.rank);
  const Plan plan;
  Records records(nullptr);
  Watchdog watchdog("rank " + std::to_string(context.rank), 1);
  const Run run{context, &context, plan, records, watchdog};
  TransportSolve solve(run, all, options, grid, entry);
  solve.begin();
  while (solve.going()) solve.batch();
  return solve.finish(false);
}

// A large field may take so long: for the first iteration of 192 MB the watchdog waits 1.9 s longer, then ten times as
// long as the one before took. If it ended it, so would this program.
void long_iterations_are_not_ended(const Context& context) {
  EXPECT(solved(context, {4000, 3000}, entry_of<SlowHalos>).at("status") == "ok");
}

void halos_that_stay_as_they_were_are_found(const Context& context) {
  const Json record = solved(context, {wide, high}, entry_of<StoppingHalos>);
  EXPECT(record.at("status") == "failed" && record.at("iterations") == 2);
}

// Opened where libraries may run; between the iterations the calling thread is on its core.
struct PlacedHalos : MpiTransport {
  void open(const RankGroup& pair, const Buffers& buffers) override {
    EXPECT(allowed_cpus() == whole);
    HostDriven::open(pair, buffers);
  }
  void start(const View& view) override {
    EXPECT(allowed_cpus().size() == 1);
    MpiTransport::start(view);
  }
  inline static const std::vector<int> whole = allowed_cpus();
};

// Each rank has a node of its own here, so that its threads are bound.
void halos_are_opened_where_the_rank_may_run(Context& context) {
  std::erase_if(context.neighbours, [&](const RankFacts& facts) { return facts.rank != context.rank; });
  EXPECT(solved(context, {wide, high}, entry_of<PlacedHalos>).at("status") == "ok");
  EXPECT(allowed_cpus() == PlacedHalos::whole);
}

}  // namespace

int main() {
  const Options options;
  const Placement placement = place(options);
  start_mpi();
  {
    Context context = make_context(options, placement);
    on_every_grid(context);
    without_memory_there_is_a_reason(context);
    nobody_waits_for_halos_that_the_other_rank_cannot_open(context);
    if (context.size == 2) long_iterations_are_not_ended(context);
    if (context.size == 2) halos_that_stay_as_they_were_are_found(context);
    if (context.size == 2) halos_are_opened_where_the_rank_may_run(context);
  }
  MPI_Finalize();
  return test::finish();
}
