#include "benchmark/workloads.hpp"

namespace volley {

Workload pingpong_workload() {
  return {.name = "pingpong",
          .run = [](Driver& transport, const View& view, std::uint64_t count) { transport.round_trips(view, count); },
          .messages = {1, 1},
          .divisor = 2,
          .second_times = false,
          .one_buffer = true};
}

Workload stream_workload(const Window& window) {
  const bool both = window.direction == Direction::bi;
  const auto messages = static_cast<std::uint64_t>(window.messages);
  return {.name = both ? "stream bi" : "stream uni",
          .run = [window](Driver& transport, const View& view,
                          std::uint64_t count) { transport.windows(view, count, window); },
          .messages = {messages, both ? messages : 0},
          .divisor = 1,
          .second_times = both,
          .one_buffer = false};
}

}  // namespace volley
