#include "jacobi/residuals.hpp"

#include <bit>
#include <cmath>

namespace volley::jacobi {

bool Residuals::due(std::uint64_t iteration) const {
  return iteration + 1 == plan_.iterations || iteration % plan_.check_every == 0;
}

void Residuals::take(std::uint64_t iteration, std::uint64_t bits) {
  const Residual residual{iteration, std::bit_cast<double>(bits)};
  // Each that is kept is a hundred iterations or more after the one before; the last stands behind them.
  const std::uint64_t apart = (100 + plan_.check_every - 1) / plan_.check_every * plan_.check_every;
  if (!kept_.empty() && kept_.back().iteration % apart != 0) kept_.pop_back();
  kept_.push_back(residual);
  broken_ = !std::isfinite(residual.value);
  converged_ = residual.value <= plan_.tolerance;
}

}  // namespace volley::jacobi
