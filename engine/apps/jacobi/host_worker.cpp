// A rank's part of a problem on the cores of its processor.
#include <algorithm>

#include "host/placement.hpp"
#include "jacobi/device/pitch.hpp"
#include "jacobi/solver.hpp"
#include "jacobi/worker.hpp"

namespace volley::jacobi {

namespace {

struct ThreadPlan {
  int threads = 1;
  std::vector<int> cpus;  // of each thread; empty: they may roam
};

// A rank's threads: a core each of those that are its own, or its part of those that it shares with other ranks.
ThreadPlan hands_of(const Context& context, const JacobiOptions& plan) {
  const RankFacts& self = context.ranks[static_cast<std::size_t>(context.rank)];
  const auto sharing = std::count_if(context.ranks.begin(), context.ranks.end(), [&](const RankFacts& other) {
    return other.node == self.node && other.cores == self.cores;
  });
  const auto cores = first_threads(self.cores);
  ThreadPlan hands;
  hands.threads = plan.threads.value_or(std::max(1, static_cast<int>(cores.size()) / static_cast<int>(sharing)));
  if (sharing == 1 && hands.threads <= static_cast<int>(cores.size())) hands.cpus = cores;
  return hands;
}

template <class Real>
class HostWorker final : public Worker {
 public:
  HostWorker(const Context& context, const JacobiOptions& plan, const Grid& grid, Halos& halos)
      : grid_(grid),
        hands_(hands_of(context, plan)),
        team_(hands_.threads, hands_.cpus),
        field_(grid, team_),
        solver_(context, plan, grid, team_, field_, halos) {}

  int threads() const override { return hands_.threads; }

  std::vector<Stores> kinds_of_stores() const override {
    return can_stream() ? std::vector{Stores::cached, Stores::streaming} : std::vector{Stores::cached};
  }

  void use(Stores stores) override {
    stores_ = stores;
    solver_.use(stores);
  }

  void copy(std::uint64_t times) override {
    const Region all{0, grid_.columns(), 0, grid_.rows()};
    for (std::uint64_t i = 0; i < times; ++i) {
      team_.run([&](int thread) {
        jacobi::copy(field_.now(), field_.next(), share_of(all, grid_.rows(), thread, team_.size()), stores_);
      });
    }
  }

  std::uint64_t advance(std::uint64_t most) override { return solver_.advance(most); }
  std::uint64_t iterations() const override { return solver_.iterations(); }
  const Residuals& residuals() const override { return solver_.residuals(); }
  const Parts& parts() const override { return solver_.parts(); }
  std::uint64_t hash() override { return hash_of(field_, grid_, team_); }
  double error() override { return error_of(field_, grid_, team_); }
  std::optional<std::array<std::int64_t, 2>> first_broken() override { return jacobi::first_broken(field_, grid_); }

 private:
  const Grid& grid_;
  ThreadPlan hands_;
  Team team_;
  Field<Real> field_;
  Solver<Real> solver_;
  Stores stores_ = Stores::cached;
};

}  // namespace

std::unique_ptr<Worker> make_host_worker(const Context& context, const JacobiOptions& plan, const Grid& grid,
                                         Halos& halos) {
  if (plan.single) return std::make_unique<HostWorker<float>>(context, plan, grid, halos);
  return std::make_unique<HostWorker<double>>(context, plan, grid, halos);
}

std::uint64_t bytes_of_field(MemoryKind kind, std::int64_t columns, std::int64_t rows, std::size_t point_bytes) {
  // No memory holds so many, and their bytes would not fit into 64 bits.
  constexpr std::int64_t most_points = std::int64_t{1} << 56;
  if (columns > most_points / rows) return beyond_memory;
  return kind == MemoryKind::device ? 2 * device::plane_bytes(columns, rows, point_bytes)
                                    : field_bytes(columns, rows, point_bytes);
}

}  // namespace volley::jacobi
