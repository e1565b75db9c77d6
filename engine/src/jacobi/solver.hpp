// The iterations: halos, the new values, the residue; and where their time goes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "../handles/communicator.hpp"
#include "../record/plan.hpp"
#include "field.hpp"
#include "halos.hpp"

namespace volley::jacobi {

// Seconds of this rank, over all iterations.
struct Parts {
  double interior_s = 0;   // new values that need no halo; without overlap all new values
  double edges_s = 0;      // with overlap: those that do
  double pack_s = 0;       // halos to and from their messages
  double exchange_s = 0;   // starting the messages and waiting for them
  double reduction_s = 0;  // the residue of all ranks
};

struct Residue {
  std::uint64_t iteration;  // counted from 0
  double value;
};

template <class Real>
class Solver {
 public:
  Solver(const Context& context, const Jacobi& plan, const Grid& grid, Team& team, Field<Real>& field, Halos& halos,
         Stores stores);

  // Up to `most` iterations more. Collective. Returns how many there were: fewer where the end came first.
  std::uint64_t advance(std::uint64_t most);

  [[nodiscard]] std::uint64_t iterations() const { return done_; }
  [[nodiscard]] bool ended() const { return converged_ || broken_ || done_ == plan_.iterations; }
  [[nodiscard]] bool converged() const { return converged_; }
  [[nodiscard]] bool broken() const { return broken_; }  // the residue is no finite number
  [[nodiscard]] const Parts& parts() const { return parts_; }
  // The last one, and those of about every hundredth iteration.
  [[nodiscard]] const std::vector<Residue>& residues() const { return residues_; }

 private:
  void step();
  void exchange_and_sweep();
  void sweep_while_exchanging();
  void sweep_shares(const Region& region, const std::function<void()>& between);
  void reduce();

  const Jacobi& plan_;
  const Grid& grid_;
  Team& team_;
  Field<Real>& field_;
  Halos& halos_;
  Stores stores_;
  Communicator world_;  // for the residue alone
  struct alignas(64) Share {
    double largest;
  };
  std::vector<Share> shares_;  // of each thread, of the iteration in hand
  Parts parts_;
  std::vector<Residue> residues_;
  std::uint64_t done_ = 0;
  bool converged_ = false;
  bool broken_ = false;
};

}  // namespace volley::jacobi
