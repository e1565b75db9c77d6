#include "exercises.hpp"

namespace volley {

Exercise pingpong_exercise() {
  return {.name = "pingpong",
          .run = [](Exchanger& transport, const View& view, std::uint64_t count) { transport.pingpong(view, count); },
          .messages = {1, 1},
          .parts = 2,
          .second_times = false,
          .one_buffer = true};
}

Exercise stream_exercise(const Stream& stream) {
  const bool both = stream.direction == Direction::bi;
  const auto window = static_cast<std::uint64_t>(stream.window);
  return {.name = both ? "stream bi" : "stream uni",
          .run = [stream](Exchanger& transport, const View& view,
                          std::uint64_t count) { transport.stream(view, count, stream); },
          .messages = {window, both ? window : 0},
          .parts = 1,
          .second_times = both,
          .one_buffer = false};
}

}  // namespace volley
