// The iterations on the cores of a processor: threads, the field in host memory, the solver.
#pragma once

#include <sys/mman.h>

#include <barrier>
#include <numeric>
#include <thread>

#include "jacobi/solver.hpp"
#include "machine/placement.hpp"

namespace volley::jacobi {

struct ThreadPlan {
  int threads = 1;
  std::vector<int> cpus;  // of each thread; empty: the scheduler places them
};

// `wanted` threads, or one for each core of this rank; ranks with the same cores get equal shares of them. Threads are
// bound to cores that only this rank has.
[[nodiscard]] ThreadPlan plan_threads(const Job& job, const std::optional<int>& wanted);

// The threads of a rank. The calling thread stays bound to its core, as are threads that it starts.
class ThreadTeam {
 public:
  // The calling thread is thread 0. Throws UnsupportedError if the machine cannot start that many threads.
  explicit ThreadTeam(const ThreadPlan& plan);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(others_.size()) + 1; }

  // Calls `work(thread)` once on every thread and returns when all have finished. Only thread 0 may throw.
  void run(const std::function<void(int)>& work);

 private:
  void serve(int thread, int cpu);
  void end();

  std::barrier<> barrier_;                          // run() passes it before the work and after it
  const std::function<void(int)>* work_ = nullptr;  // null: the threads end
  std::vector<std::thread> others_;
  std::shared_ptr<const Binding> binding_;  // of the calling thread; all teams share it, and the last one ends it
};

// More than a core's share of the caches on any processor.
inline constexpr std::uint64_t cached_bytes_per_thread = std::uint64_t{16} << 20;

// The rows of `region` that belong to a thread if `rows` rows are distributed evenly. They are the same in every call,
// so that a thread works on memory that it touched first.
[[nodiscard]] inline Region share_of(const Region& region, std::int64_t rows, int thread, int threads) {
  return {region.x0, region.x1, std::max(region.y0, rows * thread / threads),
          std::min(region.y1, rows * (thread + 1) / threads)};
}

// The points of a local domain in two planes, before and after an iteration. Each has room for the halos.
template <class Real>
class HostField {
 public:
  // Boundary values and zeros, written by the threads that will work on them.
  HostField(const Grid& grid, ThreadTeam& team) : grid_(grid), team_(team) {
    const std::uint64_t bytes = host_field_bytes(grid.columns, grid.rows, sizeof(Real));
    const std::int64_t stride = host_stride_bytes(grid.columns, sizeof(Real)) / std::int64_t{sizeof(Real)};
    around_caches_ = bytes / static_cast<std::uint64_t>(team.size()) > cached_bytes_per_thread;
    for (std::size_t i = 0; i < planes_.size(); ++i) {
      memory_[i] = Mapping(bytes / 2);
      // Large pages cause fewer TLB misses. If the kernel has none, it uses small ones.
      (void)madvise(memory_[i].data(), bytes / 2, MADV_HUGEPAGE);
      planes_[i] = {reinterpret_cast<Real*>(memory_[i].data()) + stride + points_in_front, stride};
    }
    team.run([&](int thread) {
      const Region mine = rows_of(thread);
      const std::int64_t y0 = mine.y0 - (thread == 0 ? 1 : 0);
      const std::int64_t y1 = mine.y1 + (thread == team.size() - 1 ? 1 : 0);
      for (const auto& plane : planes_) write_initial_rows(plane, y0, y1);
    });
  }

  [[nodiscard]] const Plane<Real>& now() const { return planes_[current_]; }
  [[nodiscard]] const Plane<Real>& next() const { return planes_[1 - current_]; }
  void turn() { current_ = 1 - current_; }

  // Both from now() to next().
  [[nodiscard]] Real sweep(const Region& region) const { return jacobi::sweep(now(), next(), region, around_caches_); }
  void copy() const {
    const std::size_t bytes = static_cast<std::size_t>(grid_.columns) * sizeof(Real);
    team_.run([&](int thread) {
      const Region mine = rows_of(thread);
      for (std::int64_t y = mine.y0; y < mine.y1; ++y) {
        if (around_caches_) streaming_copy(now().row(y), next().row(y), bytes);
        else std::memcpy(next().row(y), now().row(y), bytes);
      }
      order_streaming_stores();
    });
  }

  // The sum of the hashes of this rank's points (grid.hpp).
  [[nodiscard]] std::uint64_t hash() const {
    using Bits = std::conditional_t<sizeof(Real) == sizeof(std::uint64_t), std::uint64_t, std::uint32_t>;
    const auto of_row = [&](std::int64_t y) {
      const Real* row = now().row(y);
      const std::uint64_t first = point_number(grid_, y);
      std::uint64_t sum = 0;
      for (std::int64_t x = 0; x < grid_.columns; ++x) {
        sum += point_hash(first + static_cast<std::uint64_t>(x), std::bit_cast<Bits>(row[x]));
      }
      return sum;
    };
    return over_rows<std::uint64_t>(of_row, std::plus<>());
  }

  [[nodiscard]] double deviation() const {
    std::vector<double> profile(static_cast<std::size_t>(grid_.columns));
    for (std::size_t x = 0; x < profile.size(); ++x) {
      profile[x] = exact_profile(grid_, grid_.first_column() + static_cast<std::int64_t>(x));
    }
    const auto of_row = [&](std::int64_t y) {
      const Real* row = now().row(y);
      const double sine = exact_sine(grid_, grid_.first_row() + y);
      double most = 0;
      for (std::size_t x = 0; x < profile.size(); ++x) {
        most = std::max(most, std::fabs(static_cast<double>(row[x]) - sine * profile[x]));
      }
      return most;
    };
    return over_rows<double>(of_row, [](double a, double b) { return std::max(a, b); });
  }

  // The global column and row of this rank's first point that is not finite.
  [[nodiscard]] std::optional<std::array<std::int64_t, 2>> first_broken() const {
    return first_broken_point(grid_, [&](std::int64_t y) { return now().row(y); });
  }

 private:
  static constexpr std::int64_t points_in_front = cache_line_bytes / std::int64_t{sizeof(Real)};

  [[nodiscard]] Region rows_of(int thread) const { return share_of(grid_.all(), grid_.rows, thread, team_.size()); }

  void write_initial_rows(const Plane<Real>& plane, std::int64_t y0, std::int64_t y1) const {
    const Region free = grid_.free();
    for (std::int64_t y = y0; y < y1; ++y) {
      Real* row = plane.row(y);
      std::fill_n(row - points_in_front, plane.stride, Real(0));
      if (y < 0 || y >= grid_.rows) continue;
      for (const std::int64_t x : {std::int64_t{0}, grid_.columns - 1}) {  // all other fixed points are 0
        const bool fixed = x < free.x0 || x >= free.x1;
        if (fixed) row[x] = static_cast<Real>(boundary_value(grid_, grid_.first_column() + x, grid_.first_row() + y));
      }
    }
  }

  // Calls `of_row(y)` for every row, on the thread of the row, and combines the values.
  template <class Value, class OfRow, class Combine>
  [[nodiscard]] Value over_rows(const OfRow& of_row, const Combine& combine) const {
    std::vector<Value> parts(static_cast<std::size_t>(team_.size()), Value{});
    team_.run([&](int thread) {
      const Region mine = rows_of(thread);
      Value value{};
      for (std::int64_t y = mine.y0; y < mine.y1; ++y) value = combine(value, of_row(y));
      parts[static_cast<std::size_t>(thread)] = value;
    });
    return std::accumulate(parts.begin(), parts.end(), Value{}, combine);
  }

  const Grid& grid_;
  ThreadTeam& team_;
  std::array<Mapping, 2> memory_;
  std::array<Plane<Real>, 2> planes_;
  std::size_t current_ = 0;
  bool around_caches_ = false;
};

template <class Real>
class HostSolver final : public Solver {
 public:
  HostSolver(const Context& context, const JacobiOptions& options, const Grid& grid, Halos& halos)
      : Solver(context, options, grid, halos),
        team_(plan_threads(context, options.threads)),
        field_(grid, team_),
        shares_(static_cast<std::size_t>(team_.size())) {
    halos_.lie_in(field_.now(), field_.next());
  }

  int threads() const override { return team_.size(); }

  void copy(std::uint64_t times) override {
    for (std::uint64_t i = 0; i < times; ++i) field_.copy();
  }

  std::uint64_t advance(std::uint64_t most) override {
    const std::uint64_t before = done_;
    while (done_ - before < most && done_ < options_.iterations && !over()) iterate();
    return done_ - before;
  }

  std::uint64_t hash() override { return field_.hash(); }
  double deviation() override { return field_.deviation(); }
  std::optional<std::array<std::int64_t, 2>> first_broken() override { return field_.first_broken(); }

  [[nodiscard]] const HostField<Real>& field() const { return field_; }

 private:
  struct alignas(cache_line_bytes) Share {
    double largest_change;
  };

  // A NaN is larger than all numbers.
  [[nodiscard]] static double larger(double a, double b) { return b <= a || std::isnan(a) ? a : b; }

  void iterate() {
    for (auto& share : shares_) share.largest_change = 0;
    halos_.turn();
    parts_.pack_s += timed([&] { halos_.pack(field_.now()); });
    if (options_.overlap) sweep_while_exchanging();
    else exchange_then_sweep();
    field_.turn();
    if (residuals_.due(done_)) reduce(done_, largest_change_bits());
    ++done_;
  }

  void exchange_then_sweep() {
    parts_.exchange_s += timed([&] {
      halos_.start();
      halos_.finish();
    });
    parts_.pack_s += timed([&] { halos_.unpack(field_.now()); });
    parts_.interior_s += timed([&] { sweep_shares(grid_.free(), false); });
  }
  void sweep_while_exchanging() {
    parts_.exchange_s += timed([&] { halos_.start(); });
    parts_.interior_s += timed([&] { sweep_shares(grid_.interior(), true); });
    parts_.exchange_s += timed([&] { halos_.finish(); });
    parts_.pack_s += timed([&] { halos_.unpack(field_.now()); });
    parts_.edges_s += timed([&] {
      for (const Region& edge : grid_.edges()) sweep_shares(edge, false);
    });
  }

  // Every thread sweeps its rows of the region. Meanwhile thread 0 makes progress with messages.
  void sweep_shares(const Region& region, bool exchanging) {
    constexpr std::int64_t rows_between_progress = 32;
    if (region.empty()) return;
    team_.run([&](int thread) {
      Region left = share_of(region, grid_.rows, thread, team_.size());
      double& largest = shares_[static_cast<std::size_t>(thread)].largest_change;
      const bool progresses = thread == 0 && exchanging;
      while (!left.empty()) {
        Region part = left;
        if (progresses) part.y1 = std::min(left.y1, left.y0 + rows_between_progress);
        largest = larger(largest, static_cast<double>(field_.sweep(part)));
        left.y0 = part.y1;
        if (progresses) halos_.progress();
      }
    });
  }

  [[nodiscard]] std::uint64_t largest_change_bits() const {
    double largest = 0;
    for (const auto& share : shares_) largest = larger(largest, share.largest_change);
    return std::bit_cast<std::uint64_t>(std::fabs(largest));
  }

  ThreadTeam team_;
  HostField<Real> field_;
  std::vector<Share> shares_;  // of each thread, in the present iteration
};

}  // namespace volley::jacobi
