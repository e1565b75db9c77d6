// A workload: what is timed, and how: the pass after it, the limits of sampling.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "measure/timing_loop.hpp"
#include "messages/memory.hpp"

namespace volley {

// After the samples of a point one more call of the timed function is made, in which every message has a place of its
// own and is compared: several round trips, or several windows. How many, and how many messages a window has.
struct Pass {
  std::uint64_t counts = 0;
  std::uint64_t in_flight = 0;
};

inline constexpr std::size_t usual_pass_bytes = std::size_t{256} << 20;
// Buffers are at least so long, where memory allows it.
inline constexpr std::size_t usual_buffer_bytes = std::size_t{16} << 20;

// Of a pass: as many windows as show one that is neither the first nor the last, and more round trips.
inline constexpr std::uint64_t pass_windows = 3;
inline constexpr std::uint64_t pass_round_trips = 16;
// Of a pass of short messages: 16-bit numbers (65,536), rings and credits begin again in it.
inline constexpr std::uint64_t pass_short_messages = 66'000;
inline constexpr std::size_t short_message_bytes = 64;
inline constexpr std::uint64_t least_counts = 2;
inline constexpr std::uint64_t least_in_flight = 2;

// Bytes from one message of a pass to the next.
[[nodiscard]] inline std::size_t pass_stride(std::size_t message_bytes) {
  return round_up(message_bytes, guard_bytes) + 2 * guard_bytes;
}

// Gives messages as many places as `room_bytes` of a buffer have, more than half of them. Where that is twice the
// largest cache, no cache has a place when it comes again. Each place has room for all messages of a fill.
[[nodiscard]] inline View with_places(View view, std::uint64_t room_bytes) {
  view.stride = pass_stride(view.bytes + fill_room_bytes);
  view.last_place = std::bit_floor(std::max<std::uint64_t>(room_bytes / view.stride, 1)) - 1;
  return view;
}

// Bytes that a buffer must have so that a pass of messages of this length can be as large as it may be.
[[nodiscard]] inline std::size_t bytes_of_pass(std::size_t message_bytes) {
  constexpr std::uint64_t usual = pass_windows * static_cast<std::uint64_t>(Window{}.messages);
  const std::uint64_t most = usual_pass_bytes / std::max<std::size_t>(message_bytes, 1);
  return std::max(std::min(usual, most), least_counts * least_in_flight) * pass_stride(message_bytes);
}

// The limits of adaptive sampling, beside those of the plan.
struct SamplingLimits {
  // The shortest sample: long enough that the extra time of the first exchange on rewritten buffers is negligible.
  double sample_s = 1e-3;
  // Empty batches; the empty sample is their median.
  int empty_samples = 31;
  // The target length of a visit: several samples of a short exchange, two of a long one.
  double visit_s = 5e-3;
  // Untimed exchanges at the start of each visit, of a message that was written long ago: caches and connections reach
  // their steady state. Fewer if they take longer than two visits.
  int warm_up_exchanges = 8;
  // The time limit for estimating the length of a batch, and the minimum number of batches of a short exchange.
  double calibration_s = 20e-3;
  int calibration_batches = 5;
  // A longer exchange gets the fewest samples, two a visit. Its buffers are far larger than any
  // cache, so that no untimed exchange warms a cache.
  double long_exchange_s = 50e-3;
  // How long a pass of short messages may take, and that of the first message size of a series.
  double pass_s = 20e-3;
  double first_pass_s = 20e-3;
};

// What one count of the timing loop does: a round trip, or a window of messages.
struct Workload {
  const char* name;
  std::array<std::uint64_t, 2> messages;  // moved by one count: [0] first to second rank, [1] back
  double divisor;                         // seconds of one count are divided by this: 2 gives the half round trip
  bool second_times = false;              // the second rank times what it receives as well
  bool one_buffer = false;                // a fixed batch uses one buffer both ways, as the tutorial does
  std::uint64_t pass_counts = 0;          // of a pass, if there is room for its messages; 0: there is no pass
  bool long_pass = false;                 // of short messages a pass has more counts, see pass_of()
  // Messages of a pass have together at most this many bytes in each direction, unless two counts of two messages have
  // more: a call of one count cannot show that a transport makes only the first or the last.
  std::size_t pass_bytes = usual_pass_bytes;
  std::optional<Window> window = {};  // whose messages a rank has under way at once; none: round trips
  // Limit for a sample: without it, an exchange that takes no time (`null`) would never reach the minimum length.
  std::uint64_t max_counts = std::uint64_t{1} << 22;
  SamplingLimits limits = {};
};

// The largest pass whose messages have room in buffers of `buffer_bytes`; no counts if there is none. Of short messages
// it has as many more counts as take `short_pass_s`, if one takes `count_s`. Each of the `sharers` that share the
// counts has one.
[[nodiscard]] inline Pass pass_of(const Workload& workload, std::size_t message_bytes, std::size_t buffer_bytes,
                                  double count_s = 0, double short_pass_s = 0, std::uint64_t sharers = 1) {
  const std::uint64_t usual = workload.messages[0];
  const std::uint64_t least = least_counts * std::min(usual, least_in_flight);
  const std::uint64_t places = buffer_bytes / pass_stride(message_bytes);
  const std::uint64_t most = std::min<std::uint64_t>(
      places, std::max<std::uint64_t>(workload.pass_bytes / std::max<std::size_t>(message_bytes, 1), least));
  if (workload.pass_counts == 0 || most < least_counts) return {};
  const std::uint64_t in_flight = std::min(usual, most / std::clamp(sharers, least_counts, most));
  std::uint64_t counts = std::max(workload.pass_counts, sharers);
  if (workload.long_pass && message_bytes <= short_message_bytes && count_s > 0) {
    const double in_time = std::min(short_pass_s / count_s, static_cast<double>(pass_short_messages));
    counts = std::max(counts, std::min(static_cast<std::uint64_t>(in_time), pass_short_messages / in_flight));
  }
  return {.counts = std::min(counts, most / in_flight), .in_flight = in_flight};
}

[[nodiscard]] inline Workload round_trip_workload() {
  return {.name = "round trips",
          .messages = {1, 1},
          .divisor = 2,
          .one_buffer = true,
          .pass_counts = pass_round_trips,
          .long_pass = true};
}

[[nodiscard]] inline Workload window_workload(const Window& window) {
  const bool both = window.direction == Direction::bi;
  const auto messages = static_cast<std::uint64_t>(window.messages);
  return {.name = both ? "windows both ways" : "windows one way",
          .messages = {messages, both ? messages : 0},
          .divisor = 1,
          .second_times = both,
          .pass_counts = pass_windows,
          .long_pass = true,
          .window = window};
}

}  // namespace volley
