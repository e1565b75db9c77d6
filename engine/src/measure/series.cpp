#include "measure/series.hpp"

#include <algorithm>

#include "host/memory.hpp"
#include "host/pattern.hpp"

namespace volley {

namespace {

// Of a pass: as many windows as show one that is neither the first nor the last, and more round trips.
constexpr std::uint64_t pass_windows = 3;
constexpr std::uint64_t pass_round_trips = 16;
constexpr std::uint64_t least_counts = 2;
constexpr std::uint64_t least_in_flight = 2;

}  // namespace

std::size_t pass_stride(std::size_t message_bytes) { return round_up(message_bytes, guard_bytes) + 2 * guard_bytes; }

std::size_t bytes_of_pass(std::size_t message_bytes) {
  constexpr std::uint64_t usual = pass_windows * static_cast<std::uint64_t>(Window{}.messages);
  const std::uint64_t most = usual_pass_bytes / std::max<std::size_t>(message_bytes, 1);
  return std::max(std::min(usual, most), least_counts * least_in_flight) * pass_stride(message_bytes);
}

Pass pass_of(const Workload& workload, std::size_t message_bytes, std::size_t buffer_bytes) {
  const std::uint64_t usual = workload.messages[0];
  const std::uint64_t least = least_counts * std::min(usual, least_in_flight);
  const std::uint64_t places = buffer_bytes / pass_stride(message_bytes);
  const std::uint64_t most =
      std::min<std::uint64_t>(places, std::max<std::uint64_t>(workload.pass_bytes / message_bytes, least));
  if (workload.pass_counts == 0 || most < least_counts) return {};
  const std::uint64_t in_flight = std::min(usual, most / least_counts);
  return {.counts = std::min(workload.pass_counts, most / in_flight), .in_flight = in_flight};
}

Workload round_trip_workload() {
  return {.name = "round trips",
          .messages = {1, 1},
          .divisor = 2,
          .second_times = false,
          .one_buffer = true,
          .pass_counts = pass_round_trips};
}

Workload window_workload(const Window& window) {
  const bool both = window.direction == Direction::bi;
  const auto messages = static_cast<std::uint64_t>(window.messages);
  return {.name = both ? "windows both ways" : "windows one way",
          .messages = {messages, both ? messages : 0},
          .divisor = 1,
          .second_times = both,
          .one_buffer = false,
          .pass_counts = pass_windows,
          .window = window};
}

}  // namespace volley
