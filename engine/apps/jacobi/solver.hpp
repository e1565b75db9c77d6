// The iterations: halos, the new values, the residual; and where their time goes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "jacobi/field.hpp"
#include "jacobi/halos.hpp"
#include "jacobi/options.hpp"
#include "jacobi/residuals.hpp"
#include "mpi/communicator.hpp"

namespace volley::jacobi {

template <class Real>
class Solver {
 public:
  Solver(const Context& context, const JacobiOptions& plan, const Grid& grid, Team& team, Field<Real>& field,
         Halos& halos);

  // How results are stored from now on.
  void use(Stores stores) { stores_ = stores; }

  // Up to `most` iterations more. Collective. Returns how many there were: fewer where the end came first.
  std::uint64_t advance(std::uint64_t most);

  [[nodiscard]] std::uint64_t iterations() const { return done_; }
  [[nodiscard]] bool ended() const {
    return residuals_.converged() || residuals_.broken() || done_ == plan_.iterations;
  }
  [[nodiscard]] const Parts& parts() const { return parts_; }
  [[nodiscard]] const Residuals& residuals() const { return residuals_; }

 private:
  void step();
  void exchange_and_sweep();
  void sweep_while_exchanging();
  void sweep_shares(const Region& region, const std::function<void()>& between);
  void reduce();

  const JacobiOptions& plan_;
  const Grid& grid_;
  Team& team_;
  Field<Real>& field_;
  Halos& halos_;
  Stores stores_ = Stores::cached;
  Communicator world_;  // for the residual alone
  Residuals residuals_;
  struct alignas(64) Share {
    double largest;
  };
  std::vector<Share> shares_;  // of each thread, of the iteration in hand
  Parts parts_;
  std::uint64_t done_ = 0;
};

}  // namespace volley::jacobi
