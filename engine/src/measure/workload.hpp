// What is timed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include "measure/driver.hpp"

namespace volley {

// The messages at distinct addresses, which are checked one by one after the samples, have together about so many bytes
// in each direction. Buffers are at least as long.
inline constexpr std::size_t checked_bytes = std::size_t{16} << 20;

// The limits of adaptive sampling, beside those of the plan.
struct SamplingLimits {
  // The shortest sample: long enough that the extra time of the first exchange on rewritten buffers is negligible.
  double sample_s = 1e-3;
  // Empty batches; the empty sample is their median.
  int empty_samples = 31;
  // The target length of a visit: several samples of a short exchange, two of a long one.
  double visit_s = 5e-3;
  // Untimed exchanges after a fill; fewer if they take longer than two visits. A message that was just written is in
  // the caches of its writer; after about so many exchanges it is in the reader's caches, if they are large enough.
  int warm_up_exchanges = 8;
  // The time limit for estimating the length of a batch, and the minimum number of batches of a short exchange.
  double calibration_s = 20e-3;
  int calibration_batches = 5;
  // A longer exchange gets only as many samples as an interval of the median needs. Its buffers are far larger than any
  // cache, so that no untimed exchange warms a cache.
  double long_exchange_s = 50e-3;
};

// What one count of the timing loop does: a round trip, or a window of messages.
struct Workload {
  const char* name;
  std::function<void(Driver&, const View&, std::uint64_t)> run;
  std::array<std::uint64_t, 2> messages;  // moved by one count: [0] first to second rank, [1] back
  double divisor;                         // seconds of one count are divided by this: 2 gives the half round trip
  bool second_times;                      // the second rank times what it receives as well
  bool one_buffer;                        // a fixed batch uses one buffer both ways, as the tutorial does
  // A batch of so many messages in each direction; messages of a window are in flight together. May be empty.
  std::function<void(Driver&, const View&, std::uint64_t messages)> run_messages = {};
  std::uint64_t max_messages = 0;     // of such a batch
  std::optional<Window> window = {};  // whose messages a rank has under way at once; none: round trips
  // Limit for a sample: without it, an exchange that takes no time (`null`) would never reach the minimum length.
  std::uint64_t max_counts = std::uint64_t{1} << 22;
  SamplingLimits limits = {};
};

// Messages there and back; seconds are those of the half round trip.
[[nodiscard]] Workload round_trip_workload();

// Windows of messages, one way or both; seconds a window.
[[nodiscard]] Workload window_workload(const Window& window);

}  // namespace volley
