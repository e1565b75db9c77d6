#include "measure/workload.hpp"

namespace volley {

Workload round_trip_workload() {
  return {.name = "round trips",
          .run = [](Driver& driver, const View& view, std::uint64_t count) { driver.round_trips(view, count); },
          .messages = {1, 1},
          .divisor = 2,
          .second_times = false,
          .one_buffer = true,
          .run_messages = [](Driver& driver, const View& view, std::uint64_t n) { driver.round_trips(view, n); },
          .max_messages = 16};
}

Workload window_workload(const Window& window) {
  const bool both = window.direction == Direction::bi;
  const auto messages = static_cast<std::uint64_t>(window.messages);
  return {
      .name = both ? "windows both ways" : "windows one way",
      .run = [window](Driver& driver, const View& view, std::uint64_t count) { driver.windows(view, count, window); },
      .messages = {messages, both ? messages : 0},
      .divisor = 1,
      .second_times = both,
      .one_buffer = false,
      .run_messages = [window](Driver& driver, const View& view,
                               std::uint64_t n) { driver.windows(view, 1, {static_cast<int>(n), window.direction}); },
      .max_messages = messages,
      .window = window};
}

}  // namespace volley
