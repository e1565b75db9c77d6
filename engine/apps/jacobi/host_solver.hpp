// The iterations on the cores of a processor: halos, new values, residual, and the time of each part.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "jacobi/host_field.hpp"
#include "jacobi/solver.hpp"
#include "measure/timing_loop.hpp"

namespace volley::jacobi {

template <class Real>
class HostSolver final : public Solver {
 public:
  HostSolver(const Context& context, const JacobiOptions& options, const Grid& grid, Halos& halos)
      : Solver(context, options, grid, halos),
        team_(plan_threads(context, options.threads)),
        field_(grid, team_),
        shares_(static_cast<std::size_t>(team_.size())) {}

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
  // Rows that thread 0 sweeps between two calls that make progress with the messages.
  static constexpr std::int64_t rows_between_progress = 32;

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

  // Every thread sweeps its rows of the region. While messages are exchanged, thread 0 makes progress with them in
  // between.
  void sweep_shares(const Region& region, bool exchanging) {
    if (region.empty()) return;
    team_.run([&](int thread) {
      Region left = share_of(region, grid_.rows(), thread, team_.size());
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
