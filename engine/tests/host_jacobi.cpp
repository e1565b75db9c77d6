// The parts of the Jacobi solver that need one process: the arithmetic, the shares of threads, the exact solution.
#include "check_test.hpp"
#include "jacobi/field.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

using namespace volley;
using namespace volley::jacobi;

namespace {

template <class Real>
struct Points {
  std::int64_t columns;
  std::int64_t rows;
  std::int64_t stride = (columns + 2 + 31) / 16 * 16;
  std::vector<Real> values = std::vector<Real>(static_cast<std::size_t>((rows + 2) * stride + 64), Real(-7));
  Plane<Real> plane() {
    auto at = reinterpret_cast<std::uintptr_t>(values.data() + stride + 1);
    at = (at + line_bytes - 1) / line_bytes * line_bytes;
    return {reinterpret_cast<Real*>(at), stride};
  }
};

// Points whose sums round: no two additions in another order give the same.
template <class Real>
Real awkward(std::int64_t x, std::int64_t y) {
  return static_cast<Real>(std::sin(static_cast<double>(x * 31 + y * 17)) *
                           std::exp2(static_cast<double>((x + y) % 5)));
}

template <class Real>
void sweeps_like_the_formula(std::int64_t columns, std::int64_t rows, const Region& region, Stores stores) {
  Points<Real> before{columns, rows};
  Points<Real> after{columns, rows};
  const auto from = before.plane();
  const auto to = after.plane();
  for (std::int64_t y = -1; y <= rows; ++y) {
    for (std::int64_t x = -1; x <= columns; ++x) from.row(y)[x] = awkward<Real>(x, y);
  }
  const Real largest = sweep(from, to, region, stores);
  Real expected_largest = 0;
  bool same = true;
  for (std::int64_t y = 0; y < rows; ++y) {
    for (std::int64_t x = 0; x < columns; ++x) {
      const bool inside = x >= region.x0 && x < region.x1 && y >= region.y0 && y < region.y1;
      volatile Real across = from.row(y)[x - 1] + from.row(y)[x + 1];
      volatile Real along = from.row(y - 1)[x] + from.row(y + 1)[x];
      volatile Real sum = across + along;
      const Real value = inside ? Real(0.25) * sum : Real(-7);
      same = same && std::memcmp(&value, &to.row(y)[x], sizeof value) == 0;
      if (inside) expected_largest = std::max(expected_largest, std::fabs(value - from.row(y)[x]));
    }
  }
  EXPECT(same);
  EXPECT(largest == expected_largest);
}

template <class Real>
void sweeps() {
  for (const Stores stores : {Stores::cached, Stores::streaming}) {
    sweeps_like_the_formula<Real>(3, 3, {1, 2, 1, 2}, stores);
    sweeps_like_the_formula<Real>(40, 7, {0, 40, 0, 7}, stores);
    sweeps_like_the_formula<Real>(40, 7, {0, 1, 0, 7}, stores);
    sweeps_like_the_formula<Real>(40, 7, {39, 40, 2, 5}, stores);
    sweeps_like_the_formula<Real>(61, 5, {3, 58, 1, 4}, stores);
    sweeps_like_the_formula<Real>(40000, 4, {1, 39999, 0, 4}, stores);  // more than two tiles
    sweeps_like_the_formula<Real>(40, 7, {5, 5, 0, 7}, stores);         // nothing to do
  }
}

template <class Real>
void a_nan_anywhere_is_seen() {
  for (std::int64_t x = 0; x < 40; ++x) {
    Points<Real> before{40, 3};
    Points<Real> after{40, 3};
    before.plane().row(1)[x] = std::numeric_limits<Real>::quiet_NaN();
    EXPECT(std::isnan(sweep(before.plane(), after.plane(), {0, 40, 0, 3}, Stores::streaming)));
  }
}

template <class Real>
void copies() {
  Points<Real> before{61, 5};
  Points<Real> after{61, 5};
  for (std::int64_t y = 0; y < 5; ++y) {
    for (std::int64_t x = 0; x < 61; ++x) before.plane().row(y)[x] = awkward<Real>(x, y);
  }
  for (const Stores stores : {Stores::cached, Stores::streaming}) {
    copy(before.plane(), after.plane(), {0, 61, 0, 5}, stores);
    for (std::int64_t y = 0; y < 5; ++y) {
      EXPECT(std::memcmp(before.plane().row(y), after.plane().row(y), 61 * sizeof(Real)) == 0);
    }
    EXPECT(after.plane().row(0)[61] == Real(-7));
  }
}

void shares_are_whole_and_apart() {
  for (int threads = 1; threads < 9; ++threads) {
    std::int64_t next = 2;
    for (int thread = 0; thread < threads; ++thread) {
      const Region share = share_of({0, 10, 2, 97}, 100, thread, threads);
      if (share.empty()) continue;
      EXPECT(share.y0 == next && share.x0 == 0 && share.x1 == 10);
      next = share.y1;
    }
    EXPECT(next == 97);
  }
}

void grids_count_with_64_bits() {
  JacobiOptions plan;
  plan.grid = {3, 2};
  plan.domain = {60000, 50000};
  const Grid grid(plan, 5);
  EXPECT(grid.first_column() == 120000 && grid.first_row() == 50000);
  EXPECT(grid.updates() == (std::int64_t{180000} - 2) * (100000 - 2));
  EXPECT(grid.free().points() == std::int64_t{59999} * 49999);
  EXPECT(!grid.neighbour(Side::right) && !grid.neighbour(Side::down) && grid.neighbour(Side::left) == 4 &&
         grid.neighbour(Side::up) == 2);
  EXPECT(field_bytes(60000, 50000, 4) > std::uint64_t{2} * 60000 * 50000 * 4);
  const Plane<float> plane{reinterpret_cast<float*>(std::intptr_t{4096}), 60032};
  EXPECT(reinterpret_cast<std::intptr_t>(plane.row(50000)) == 4096 + std::intptr_t{50000} * 60032 * 4);
}

void edges_and_interior_are_the_free_points() {
  JacobiOptions plan;
  plan.grid = {3, 3};
  for (const std::int64_t size : {3, 4, 9}) {
    plan.domain = {size, size + 1};
    for (int rank = 0; rank < 9; ++rank) {
      const Grid grid(plan, rank);
      std::int64_t points = grid.interior().points();
      for (const Region& edge : grid.edges()) points += edge.points();
      EXPECT(points == grid.free().points());
    }
  }
}

void the_exact_solution_is_the_formula() {
  JacobiOptions plan;
  plan.domain = {33, 17};
  const Grid grid(plan, 0);
  const double pi = std::numbers::pi;
  for (const std::int64_t column : {0, 1, 16, 31, 32}) {
    const double length = 2;
    const double x = static_cast<double>(column) / 16;
    const double formula = (std::sinh(pi * (length - x)) + std::exp(-pi) * std::sinh(pi * x)) / std::sinh(pi * length);
    EXPECT(std::fabs(exact_profile(grid, column) - formula) < 1e-15);
  }
  EXPECT(boundary_value(grid, 0, 8) == 1 && boundary_value(grid, 32, 8) == std::exp(-pi));
  EXPECT(boundary_value(grid, 5, 0) == 0 && boundary_value(grid, 5, 16) == 0);
  plan.domain = {100000, 5};  // sinh(pi L) would be infinite
  const Grid wide(plan, 0);
  EXPECT(exact_profile(wide, 0) == 1 && exact_profile(wide, 50000) == 0);
}

}  // namespace

int main() {
  sweeps<double>();
  sweeps<float>();
  a_nan_anywhere_is_seen<double>();
  a_nan_anywhere_is_seen<float>();
  copies<double>();
  copies<float>();
  shares_are_whole_and_apart();
  grids_count_with_64_bits();
  edges_and_interior_are_the_free_points();
  the_exact_solution_is_the_formula();
  return test::finish();
}
