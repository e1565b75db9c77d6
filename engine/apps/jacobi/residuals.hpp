// What a solution tells while it goes on: where its time goes, and its residuals; when there is one, what it says.
#pragma once

#include <cstdint>
#include <vector>

#include "jacobi/options.hpp"

namespace volley::jacobi {

// Seconds of this rank, over all iterations.
struct Parts {
  double interior_s = 0;   // new values that need no halo; without overlap all new values
  double edges_s = 0;      // with overlap: those that do
  double pack_s = 0;       // halos to and from their messages
  double exchange_s = 0;   // starting the messages and waiting for them
  double reduction_s = 0;  // the residual of all ranks
};

struct Residual {
  std::uint64_t iteration;  // counted from 0
  double value;
};

class Residuals {
 public:
  explicit Residuals(const JacobiOptions& plan) : plan_(plan) {}

  // Whether this iteration has one.
  [[nodiscard]] bool due(std::uint64_t iteration) const;
  // Takes the bits of one, a number that is not negative or a NaN. The calls are in the order of the iterations.
  void take(std::uint64_t iteration, std::uint64_t bits);

  [[nodiscard]] bool converged() const { return converged_; }
  [[nodiscard]] bool broken() const { return broken_; }  // it is no finite number
  // The last one, and those of about every hundredth iteration.
  [[nodiscard]] const std::vector<Residual>& kept() const { return kept_; }

 private:
  const JacobiOptions& plan_;
  std::vector<Residual> kept_;
  bool converged_ = false;
  bool broken_ = false;
};

}  // namespace volley::jacobi
