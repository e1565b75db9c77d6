#include "jacobi/solver.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "measure/timing_loop.hpp"

namespace volley::jacobi {

namespace {

// MatrixWriter that thread 0 sweeps between two looks at the messages.
constexpr std::int64_t rows_between = 32;

// Adds the seconds of `body` to a part of an iteration.
template <class Body>
void into(double& part, Body&& body) {
  part += timed([&](std::uint64_t) { body(); }, 1);
}

// Keeps the larger one; a NaN is larger than all.
void raise(double& largest, double value) {
  if (!(value <= largest) && !std::isnan(largest)) largest = value;
}

}  // namespace

template <class Real>
Solver<Real>::Solver(const Context& context, const JacobiOptions& plan, const Grid& grid, Team& team,
                     Field<Real>& field, Halos& halos)
    : plan_(plan),
      grid_(grid),
      team_(team),
      field_(field),
      halos_(halos),
      world_(Communicator::duplicate(context.world.get())),
      residuals_(plan),
      shares_(static_cast<std::size_t>(team.size())) {}

template <class Real>
std::uint64_t Solver<Real>::advance(std::uint64_t most) {
  const std::uint64_t before = done_;
  while (done_ - before < most && !ended()) step();
  return done_ - before;
}

template <class Real>
void Solver<Real>::step() {
  for (auto& share : shares_) share.largest = 0;
  halos_.turn();
  into(parts_.pack_s, [&] { halos_.pack(field_.now()); });
  if (plan_.overlap) sweep_while_exchanging();
  else exchange_and_sweep();
  field_.turn();
  ++done_;
  if (residuals_.due(done_ - 1)) into(parts_.reduction_s, [&] { reduce(); });
}

template <class Real>
void Solver<Real>::exchange_and_sweep() {
  into(parts_.exchange_s, [&] {
    halos_.start();
    halos_.finish();
  });
  into(parts_.pack_s, [&] { halos_.unpack(field_.now()); });
  into(parts_.interior_s, [&] { sweep_shares(grid_.free(), {}); });
}

template <class Real>
void Solver<Real>::sweep_while_exchanging() {
  into(parts_.exchange_s, [&] { halos_.start(); });
  into(parts_.interior_s, [&] { sweep_shares(grid_.interior(), [&] { halos_.progress(); }); });
  into(parts_.exchange_s, [&] { halos_.finish(); });
  into(parts_.pack_s, [&] { halos_.unpack(field_.now()); });
  into(parts_.edges_s, [&] {
    for (const Region& edge : grid_.edges()) sweep_shares(edge, {});
  });
}

// Every thread sweeps its rows of the region; thread 0 calls `between`, if anything, every few of them.
template <class Real>
void Solver<Real>::sweep_shares(const Region& region, const std::function<void()>& between) {
  if (region.empty()) return;
  team_.run([&](int thread) {
    Region left = share_of(region, grid_.rows(), thread, team_.size());
    double& largest = shares_[static_cast<std::size_t>(thread)].largest;
    const std::int64_t rows = thread == 0 && between ? rows_between : grid_.rows();
    while (!left.empty()) {
      Region part = left;
      part.y1 = std::min(left.y1, left.y0 + rows);
      raise(largest, static_cast<double>(sweep(field_.now(), field_.next(), part, stores_)));
      left.y0 = part.y1;
      if (thread == 0 && between) between();
    }
  });
}

// Numbers that are not negative are in the order of their bits, and every NaN comes behind them: MPI_MAX of numbers may
// lose a NaN, MPI_MAX of their bits does not.
template <class Real>
void Solver<Real>::reduce() {
  double largest = 0;
  for (const auto& share : shares_) raise(largest, share.largest);
  auto bits = std::bit_cast<std::uint64_t>(std::fabs(largest));
  VOLLEY_MPI(MPI_Allreduce(MPI_IN_PLACE, &bits, 1, MPI_UINT64_T, MPI_MAX, world_.get()));
  residuals_.take(done_ - 1, bits);
}

template class Solver<double>;
template class Solver<float>;

}  // namespace volley::jacobi
