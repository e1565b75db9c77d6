#include "benchmark/overlap/computation_length.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "measure/timing_loop.hpp"

namespace volley::overlap {

namespace {

// How far the length of a computation may be from what is wanted. 12 attempts find it: each may grow sixteenfold.
constexpr double length_tolerance = 0.05;
constexpr int max_attempts = 12;
constexpr int batches = 4;

// Seconds of one computation, the shortest of some batches.
double shortest_s(OverlapDriver& driver, std::uint64_t repeats) {
  double shortest = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < batches; ++batch) {
    driver.arm({}, repeats);
    const double batch_s = timed([&](std::uint64_t count) { driver.windows({}, count, {}); }, repeats);
    driver.disarm();
    shortest = std::min(shortest, batch_s / static_cast<double>(repeats));
  }
  return shortest;
}

}  // namespace

std::uint64_t steps_for(Control& control, Watchdog& watchdog, OverlapDriver& alone, double wanted_s) {
  std::uint64_t steps = 1;
  double once_s = 0;
  double expected_s = 0;  // of one computation
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    alone.set_steps(steps);
    // One call is too short for the clock; a computation of another length than the last one needs a first call.
    const auto repeats = static_cast<std::uint64_t>(std::clamp(1e-4 / std::max(once_s, 1e-9), 1.0, 1000.0));
    watchdog.progress(10 * expected_s * batches * static_cast<double>(repeats));
    control.ready();
    once_s = control.shared(shortest_s(alone, repeats));
    const double change = std::clamp(wanted_s / std::max(once_s, 1e-9), 1.0 / 16, 16.0);
    if (std::abs(change - 1) <= length_tolerance) break;
    const auto next = static_cast<std::uint64_t>(std::max(1.0, std::round(static_cast<double>(steps) * change)));
    if (next == steps) break;
    steps = next;
    expected_s = once_s * change;
  }
  return steps;
}

}  // namespace volley::overlap
