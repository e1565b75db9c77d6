// The parts of the Jacobi solver that need one process: the arithmetic, the shares of threads, the exact solution.
#include "expect.hpp"
#include "jacobi/host_solver.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numbers>
#include <stdexcept>
#include <string>
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
    at = (at + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes;
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
void sweeps_like_the_formula(std::int64_t columns, std::int64_t rows, const Region& region, bool around_caches) {
  Points<Real> before{columns, rows};
  Points<Real> after{columns, rows};
  const auto from = before.plane();
  const auto to = after.plane();
  for (std::int64_t y = -1; y <= rows; ++y) {
    for (std::int64_t x = -1; x <= columns; ++x) from.row(y)[x] = awkward<Real>(x, y);
  }
  const Real largest = sweep(from, to, region, around_caches);
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
  for (const bool around_caches : {false, true}) {
    sweeps_like_the_formula<Real>(3, 3, {1, 2, 1, 2}, around_caches);
    sweeps_like_the_formula<Real>(40, 7, {0, 40, 0, 7}, around_caches);
    sweeps_like_the_formula<Real>(40, 7, {0, 1, 0, 7}, around_caches);
    sweeps_like_the_formula<Real>(40, 7, {39, 40, 2, 5}, around_caches);
    sweeps_like_the_formula<Real>(61, 5, {3, 58, 1, 4}, around_caches);
    sweeps_like_the_formula<Real>(40000, 4, {1, 39999, 0, 4}, around_caches);  // many chunks
    sweeps_like_the_formula<Real>(40, 7, {5, 5, 0, 7}, around_caches);         // nothing to do
  }
}

template <class Real>
void a_nan_anywhere_is_seen() {
  for (std::int64_t x = 0; x < 40; ++x) {
    Points<Real> before{40, 3};
    Points<Real> after{40, 3};
    before.plane().row(1)[x] = std::numeric_limits<Real>::quiet_NaN();
    for (const bool around_caches : {false, true}) {
      EXPECT(std::isnan(sweep(before.plane(), after.plane(), {0, 40, 0, 3}, around_caches)));
    }
  }
}

template <class Real>
void copies() {
  const Grid grid({1, 1}, {61, 5}, 0);
  ThreadTeam team({2, {}});
  const HostField<Real> field(grid, team);
  for (std::int64_t y = 0; y < 5; ++y) {
    for (std::int64_t x = 0; x < 61; ++x) field.now().row(y)[x] = awkward<Real>(x, y);
  }
  field.copy();
  for (std::int64_t y = 0; y < 5; ++y) {
    EXPECT(std::memcmp(field.now().row(y), field.next().row(y), 61 * sizeof(Real)) == 0);
  }
  EXPECT(field.next().row(0)[61] == 0);
  for (const std::size_t begin : {0, 3}) {
    for (const std::size_t end : {3, 5, 59}) {
      Points<Real> after{61, 1};
      Real* const row = after.plane().row(0);
      streaming_copy(field.now().row(3) + begin, row + begin, (end - begin) * sizeof(Real));
      order_streaming_stores();
      EXPECT(std::memcmp(field.now().row(3) + begin, row + begin, (end - begin) * sizeof(Real)) == 0);
      EXPECT(row[end] == Real(-7) && (begin == 0 || row[begin - 1] == Real(-7)));
    }
  }
}

TEST(every_thread_works_once) {
  for (const int threads : {1, 2, 5}) {
    ThreadTeam team({threads, {}});
    EXPECT(team.size() == threads);
    std::vector<int> calls(static_cast<std::size_t>(threads));
    for (int i = 0; i < 100; ++i) team.run([&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
    EXPECT(std::all_of(calls.begin(), calls.end(), [](int count) { return count == 100; }));
    bool caught = false;
    try {
      team.run([&](int thread) {
        ++calls[static_cast<std::size_t>(thread)];
        if (thread == 0) throw std::runtime_error("a message failed");
      });
    } catch (const std::runtime_error&) {
      caught = true;
    }
    EXPECT(caught && std::all_of(calls.begin(), calls.end(), [](int count) { return count == 101; }));
  }
}

// Several teams follow each other, and each has thread 0 on the same core.
TEST(the_last_team_unbinds_the_calling_thread) {
  const auto before = allowed_cpus();
  const ThreadPlan plan{1, {before.back()}};
  auto first = std::make_unique<ThreadTeam>(plan);
  auto second = std::make_unique<ThreadTeam>(plan);
  EXPECT(allowed_cpus() == plan.cpus);
  {
    const Binding whole(before);
    EXPECT(allowed_cpus() == before);
  }
  EXPECT(allowed_cpus() == plan.cpus);
  first.reset();
  EXPECT(allowed_cpus() == plan.cpus);
  second.reset();
  EXPECT(allowed_cpus() == before);
  const ThreadTeam unbound(ThreadPlan{2, {}});
  EXPECT(allowed_cpus() == before);
}

TEST(shares_are_whole_and_apart) {
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

TEST(grids_count_with_64_bits) {
  const Grid grid({3, 2}, {60000, 50000}, 5);
  EXPECT(grid.first_column() == 120000 && grid.first_row() == 50000);
  EXPECT(grid.all_columns() == 180000 && grid.all_rows() == 100000 && grid.messages() == 14);
  EXPECT(grid.free().points() == std::int64_t{59999} * 49999);
  EXPECT(!grid.neighbour(Side::right) && !grid.neighbour(Side::down) && grid.neighbour(Side::left) == 4 &&
         grid.neighbour(Side::up) == 2);
  EXPECT(host_field_bytes(60000, 50000, 4) > std::uint64_t{2} * 60000 * 50000 * 4);
  const Plane<float> plane{reinterpret_cast<float*>(std::intptr_t{4096}), 60032};
  EXPECT(reinterpret_cast<std::intptr_t>(plane.row(50000)) == 4096 + std::intptr_t{50000} * 60032 * 4);
}

TEST(edges_and_interior_are_the_free_points) {
  for (const std::int64_t size : {3, 4, 9}) {
    for (int rank = 0; rank < 9; ++rank) {
      const Grid grid({3, 3}, {size, size + 1}, rank);
      std::int64_t points = grid.interior().points();
      for (const Region& edge : grid.edges()) points += edge.points();
      EXPECT(points == grid.free().points());
    }
  }
}

TEST(the_exact_solution_is_the_formula) {
  const Grid grid({1, 1}, {33, 17}, 0);
  const double pi = std::numbers::pi;
  for (const std::int64_t column : {0, 1, 16, 31, 32}) {
    const double length = 2;
    const double x = static_cast<double>(column) / 16;
    const double formula = (std::sinh(pi * (length - x)) + std::exp(-pi) * std::sinh(pi * x)) / std::sinh(pi * length);
    EXPECT(std::fabs(exact_profile(grid, column) - formula) < 1e-15);
  }
  EXPECT(boundary_value(grid, 0, 8) == 1 && boundary_value(grid, 32, 8) == std::exp(-pi));
  EXPECT(boundary_value(grid, 5, 0) == 0 && boundary_value(grid, 5, 16) == 0);
  const Grid wide({1, 1}, {100000, 5}, 0);  // sinh(pi L) would be infinite
  EXPECT(exact_profile(wide, 0) == 1 && exact_profile(wide, 50000) == 0);
}

TEST(residuals_are_kept_about_every_hundredth_iteration) {
  const auto kept = [](std::uint64_t check_every, std::uint64_t iterations) {
    JacobiOptions options;
    options.check_every = check_every;
    options.iterations = iterations;
    options.tolerance = 1e-9;
    ResidualHistory history(options);
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t i = 0; i < iterations; ++i) {
      if (history.due(i)) history.take(i, std::bit_cast<std::uint64_t>(0.5));
    }
    for (const auto& residual : history.kept()) numbers.push_back(residual.iteration);
    EXPECT(!history.converged() && !history.broken());
    return numbers;
  };
  using Numbers = std::vector<std::uint64_t>;
  EXPECT((kept(1, 250) == Numbers{0, 100, 200, 249}));
  EXPECT((kept(7, 250) == Numbers{0, 105, 210, 249}));
  EXPECT((kept(150, 301) == Numbers{0, 150, 300}));
  for (const std::uint64_t huge : {std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 50}) {
    EXPECT((kept(huge - 1, 3) == Numbers{0, 2}) && (kept(huge, 3) == Numbers{0, 2}));
  }
}

// The complaints about options, one a line.
std::string complaints(const std::string& text, int world_size, const std::vector<std::string>& transports = {}) {
  Plan plan;
  plan.world_size = world_size;
  plan.transports = transports;
  std::vector<std::string> errors;
  JacobiOptions options;
  PlanObject::read_plan(R"({"plan": 2, "options": )" + text + "}", errors, [&](PlanObject& given) {
    given.object("options", [&](PlanObject& part) { read_options(part, plan, options); });
  });
  std::string all;
  for (const auto& error : errors) all += error + "\n";
  return all;
}

TEST(wrong_options_are_complaints) {
  const auto options = [](const std::string& more) { return R"({"grid": [1, 2], "domain": [3, 3])" + more + "}"; };
  EXPECT(complaints(options(R"(, "check_every": 2147483647)"), 2).empty());
  for (const char* key : {"iterations", "check_every", "tolerance", "threads"}) {
    for (const char* value : {"0", "-1", "\"1\""}) {
      const std::string text = options(", \"" + std::string(key) + "\": " + value);
      EXPECT(complaints(text, 2).find("$.options." + std::string(key)) != std::string::npos);
    }
  }
  for (const char* value : {"2147483648", "9223372036854775807", "18446744073709551615", "18446744073709551616"}) {
    const std::string text = options(", \"check_every\": " + std::string(value));
    EXPECT(complaints(text, 2).find("$.options.check_every: expected a whole number from 1 to 2147483647") !=
           std::string::npos);
  }
  EXPECT(complaints(options(R"(, "threads": 2147483647)"), 2).find("from 1 to 65536") != std::string::npos);
  for (const char* domain : {"[3, -3]", "[2, 3]", "[3, 2147483648]", "[3, 3, 3]", "[3]", "3"}) {
    const std::string text = R"({"grid": [1, 2], "domain": )" + std::string(domain) + "}";
    EXPECT(complaints(text, 2).find("$.options.domain") != std::string::npos);
  }
  EXPECT(complaints(options(""), 6).find("1 x 6, 2 x 3, 3 x 2, 6 x 1") != std::string::npos);
  const int most = std::numeric_limits<int>::max();  // a prime
  EXPECT(complaints(options(""), most).find("1 x 2147483647, 2147483647 x 1\n") != std::string::npos);
  EXPECT(complaints(R"({"grid": [2147483647, 2147483647], "domain": [3, 3]})", most).find("does not fit") !=
         std::string::npos);
  EXPECT(complaints(R"({"grid": [2147483647, 1], "domain": [2147483647, 2147483647]})", most).empty());
  EXPECT(complaints(options(""), 2, {"host", "null"}).find("$.transports[1]: `null` cannot exchange halos") !=
         std::string::npos);
}

TEST(both_precisions) {
  sweeps<double>();
  sweeps<float>();
  a_nan_anywhere_is_seen<double>();
  a_nan_anywhere_is_seen<float>();
  copies<double>();
  copies<float>();
}

}  // namespace

int main() { return test::run_all(); }
