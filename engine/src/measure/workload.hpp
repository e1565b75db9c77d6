// What is timed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "measure/driver.hpp"
#include "measure/sampling_limits.hpp"

namespace volley {

// The messages at distinct addresses, which are checked one by one after the samples, have together about so many bytes
// in each direction. Buffers are at least as long.
inline constexpr std::size_t checked_bytes = std::size_t{16} << 20;

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
  std::uint64_t max_messages = 0;  // of such a batch
  // Limit for a sample: without it, an exchange that takes no time (`null`) would never reach the minimum length.
  std::uint64_t max_counts = std::uint64_t{1} << 22;
  SamplingLimits limits = {};
};

// Messages there and back; seconds are those of the half round trip.
[[nodiscard]] Workload round_trip_workload();

// Windows of messages, one way or both; seconds a window.
[[nodiscard]] Workload window_workload(const Window& window);

}  // namespace volley
