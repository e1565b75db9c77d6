// The residual of an iteration is the largest change of any point.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/round_up.hpp"
#include "jacobi/options.hpp"

namespace volley::jacobi {

struct Residual {
  std::uint64_t iteration;  // counted from 0
  double value;
};

class ResidualHistory {
 public:
  explicit ResidualHistory(const JacobiOptions& options) : options_(options) {}

  // Whether this iteration has a residual.
  [[nodiscard]] bool due(std::uint64_t iteration) const {
    return iteration + 1 == options_.iterations || iteration % options_.check_every == 0;
  }
  // Takes a residual as the bits of a number that is not negative or of a NaN. Call it in the order of the iterations.
  void take(std::uint64_t iteration, std::uint64_t bits) {
    const std::uint64_t every = options_.check_every;
    // Iterations from one kept residual to the next: the smallest multiple of `check_every` that is at least 100.
    const std::uint64_t apart = every >= 100 ? every : round_up<std::uint64_t>(100, every);
    if (!kept_.empty() && kept_.back().iteration % apart != 0) kept_.pop_back();
    const auto value = std::bit_cast<double>(bits);
    kept_.push_back({iteration, value});
    broken_ = !std::isfinite(value);
    converged_ = value <= options_.tolerance;
  }

  [[nodiscard]] bool converged() const { return converged_; }
  [[nodiscard]] bool broken() const { return broken_; }  // the last residual is not finite
  // The last residual, and those of about every hundredth iteration.
  [[nodiscard]] const std::vector<Residual>& kept() const { return kept_; }

 private:
  const JacobiOptions& options_;
  std::vector<Residual> kept_;
  bool converged_ = false;
  bool broken_ = false;
};

}  // namespace volley::jacobi
