// At 1, 2 and 4 ranks: every grid, thread count and kind of overlap gives the same field bit for bit; a NaN stops it.
#include "check_test.hpp"
#include "jacobi/solver.hpp"
#include "transport/registry.hpp"

#include <mpi.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace volley;
using namespace volley::jacobi;

namespace {

constexpr std::int64_t wide = 48;
constexpr std::int64_t high = 40;

// The whole field after `iterations`, by the plainest loop there is.
template <class Real>
std::vector<Real> plainly(std::uint64_t iterations) {
  JacobiOptions plan;
  plan.domain = {wide, high};
  const Grid grid(plan, 0);
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
struct Run {
  Grid grid;
  Halos halos;
  Team team;
  Field<Real> field;
  Solver<Real> solver;
  Run(const Context& context, const JacobiOptions& plan, int threads)
      : grid(plan, context.rank),
        halos(context, grid, *find_transport("host"), sizeof(Real)),
        team(threads, {}),
        field(grid, team),
        solver(context, plan, grid, team, field, halos) {
    solver.use(Stores::streaming);
    EXPECT(halos.unavailable(Plan{}).empty());
    halos.open();
    EXPECT(halos.prove() > 0 && !halos.wrong());
  }
};

template <class Real>
void the_field_is_the_same(const Context& context, const JacobiOptions& plan, int threads) {
  Run<Real> run(context, plan, threads);
  EXPECT(run.solver.advance(7) == 7);
  EXPECT(run.solver.advance(1000) == plan.iterations - 7 && run.solver.ended());
  run.halos.compare();
  EXPECT(!run.halos.wrong());
  const auto expected = plainly<Real>(plan.iterations);
  bool same = true;
  for (std::int64_t y = 0; y < run.grid.rows(); ++y) {
    const auto first = static_cast<std::size_t>((run.grid.first_row() + y) * wide + run.grid.first_column());
    same = same && std::memcmp(run.field.now().row(y), expected.data() + first,
                               sizeof(Real) * static_cast<std::size_t>(run.grid.columns())) == 0;
  }
  EXPECT(same);
  run.halos.close();
}

template <class Real>
void a_nan_stops_it(const Context& context, JacobiOptions plan) {
  plan.iterations = 50;
  Run<Real> run(context, plan, 2);
  EXPECT(run.solver.advance(3) == 3);
  const bool last = context.rank == context.size - 1;
  if (last) run.field.now().row(5)[2] = std::numeric_limits<Real>::quiet_NaN();
  EXPECT(run.solver.advance(50) == 1 && run.solver.residuals().broken() && !run.solver.residuals().converged() &&
         run.solver.ended());
  const auto where = first_broken(run.field, run.grid);
  EXPECT(where.has_value() == last);
  if (where) EXPECT((*where)[0] == run.grid.first_column() + 2 && (*where)[1] == run.grid.first_row() + 4);
  run.halos.close();
}

void the_end_is_where_the_plan_says(const Context& context, JacobiOptions plan) {
  plan.iterations = 10000;
  plan.tolerance = 1e-3;
  plan.check_every = 1;
  Run<double> every(context, plan, 1);
  const auto needed = every.solver.advance(plan.iterations);
  EXPECT(every.solver.residuals().converged() && needed == every.solver.iterations() && needed < plan.iterations);
  EXPECT(every.solver.residuals().kept().back().iteration == needed - 1 &&
         every.solver.residuals().kept().back().value <= 1e-3);
  every.halos.close();
  plan.check_every = 64;  // residuals of iterations 0, 64, 128, ...
  Run<double> seldom(context, plan, 1);
  EXPECT(seldom.solver.advance(plan.iterations) == (needed - 1 + 63) / 64 * 64 + 1 &&
         seldom.solver.residuals().converged());
  seldom.halos.close();
}

void on_every_grid(const Context& context) {
  for (int across = 1; across <= context.size; ++across) {
    if (context.size % across != 0) continue;
    JacobiOptions plan;
    plan.grid = {across, context.size / across};
    plan.domain = {wide / plan.grid[0], high / plan.grid[1]};
    plan.iterations = 40;
    for (const bool overlap : {false, true}) {
      plan.overlap = overlap;
      for (const int threads : {1, 2, 3}) {
        the_field_is_the_same<double>(context, plan, threads);
        the_field_is_the_same<float>(context, plan, threads);
      }
    }
    a_nan_stops_it<double>(context, plan);
    a_nan_stops_it<float>(context, plan);
    the_end_is_where_the_plan_says(context, plan);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options;
  const Placement placement = place(options);
  MPI_Init(&argc, &argv);
  {
    const Context context = make_context(options, placement);
    on_every_grid(context);
  }
  MPI_Finalize();
  return test::finish();
}
