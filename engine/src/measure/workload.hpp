// What is timed, and the limits of sampling.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "measure/driver.hpp"

namespace volley {

// Messages with a place each, which are compared one by one behind the samples, move about this much in each direction.
// Buffers are at least as long.
inline constexpr std::size_t checked_bytes = std::size_t{16} << 20;

struct SamplingLimits {
  // The minimum length of a sample: then the extra cost of the first exchange on rewritten buffers is negligible.
  double sample_s = 1e-3;
  // Batches of nothing, whose median is the empty sample.
  int empty_samples = 31;
  // A visit takes about this long: several samples of a short exchange, two of a long one.
  double visit_s = 5e-3;
  // Untimed exchanges after a fill, fewer if they take longer than two visits. A message that was just written lies in
  // the caches of its writer; caches of the reader that are large enough for it have it after about so many.
  int settling_exchanges = 8;
  // The time limit for estimating the length of a batch, and the minimum number of batches of a short exchange.
  double calibration_s = 20e-3;
  int calibration_batches = 5;
  // An exchange longer than this needs only as many samples as an interval of the median needs, and its buffers are
  // far larger than any cache that an untimed exchange could warm.
  double lasting_exchange_s = 50e-3;
};

// What one count of the timing loop does: a round trip, or a window of messages.
struct Workload {
  const char* name;
  std::function<void(Driver&, const View&, std::uint64_t)> run;
  std::array<std::uint64_t, 2> messages;  // moved by one count: [0] first to second rank, [1] back
  double divisor;                         // seconds of one count are divided by this: 2 gives the half round trip
  bool second_times;                      // the second rank times what it receives as well
  bool one_buffer;                        // a fixed batch uses one buffer both ways, as the tutorial does
  // A batch of so many messages each way, of which those of a window are in flight together; none: not separable.
  std::function<void(Driver&, const View&, std::uint64_t messages)> run_messages = {};
  std::uint64_t most_messages = 0;  // of such a batch
  // Limit for a sample: without it, an exchange that takes no time (`null`) would never reach the minimum length.
  std::uint64_t most_counts = std::uint64_t{1} << 22;
  SamplingLimits limits = {};
};

// Messages there and back; seconds are those of the half round trip.
[[nodiscard]] Workload round_trip_workload();

// Windows of messages, one way or both; seconds a window.
[[nodiscard]] Workload window_workload(const Window& window);

}  // namespace volley
