// THE timing loop, and what it times. Every measurement by the host goes through `timed_span`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.hpp"

namespace volley {

struct Span {
  Clock::time_point begin;
  Clock::time_point end;
};

[[nodiscard]] inline double seconds_of(const Span& span) { return seconds_between(span.begin, span.end); }

// When `body(count)` began and ended: one clock pair around `count` exchanges back to back, nothing else.
//
// The empty asm statements are a barrier for the optimiser only: no work of the body may move across a clock
// reading, and a body that does nothing (count = 0) is still called. `body` returns when its data is usable.
template <class Body>
[[nodiscard]] Span timed_span(Body&& body, std::uint64_t count) {
  asm volatile("" ::: "memory");
  const auto begin = Clock::now();
  asm volatile("" ::: "memory");
  body(count);
  asm volatile("" ::: "memory");
  const auto end = Clock::now();
  asm volatile("" ::: "memory");
  return {begin, end};
}

template <class Body>
[[nodiscard]] double timed(Body&& body, std::uint64_t count) {
  return seconds_of(timed_span(std::forward<Body>(body), count));
}

template <class Body>
[[nodiscard]] double timed(Body&& body) {
  return timed([&](std::uint64_t) { body(); }, 1);
}

enum class Direction { uni, bi };

inline constexpr std::array direction_names{"uni", "bi"};
[[nodiscard]] inline const char* name_of(Direction direction) {
  return direction_names[static_cast<std::size_t>(direction)];
}

// Messages in flight at once before one acknowledgement, one way or both.
struct Window {
  int messages = 64;
  Direction direction = Direction::uni;

  // Whether the first rank, which leads, or the other one sends and receives messages.
  [[nodiscard]] bool sends(bool leads) const { return leads || direction == Direction::bi; }
  [[nodiscard]] bool receives(bool leads) const { return !leads || direction == Direction::bi; }
  // Whether window `i` of `count`, counted from 1, is acknowledged. In both directions the next window says that this
  // one has arrived: the other rank begins it when it has received this one.
  [[nodiscard]] bool acknowledged(std::uint64_t i, std::uint64_t count) const {
    return direction == Direction::uni || i == count;
  }
};

// The messages of a count in each direction: of a window, or one of a round trip.
[[nodiscard]] inline std::uint64_t messages_per_count(const std::optional<Window>& window) {
  return window ? static_cast<std::uint64_t>(window->messages) : 1;
}

// The current message: where it is sent from, where it arrives, how long it is. `send` and `recv` are in the buffers
// given to `open`; they are equal if one buffer is used in both directions, as in the tutorial.
struct View {
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::size_t bytes = 0;
  // The last message of a call (or those of its last window) is sent from this many bytes after `send`. Its contents
  // differ from those of all messages before, and are what the receiver's check expects.
  std::size_t last_offset = 0;
  // Bytes from one message of a call to the next, in both buffers. 0 in timed calls: all have one place, unless caches
  // are to be cold.
  std::size_t stride = 0;
  // The place of this message, counted from 0, and the last place, after which the first comes again: a power of two
  // minus 1.
  std::uint64_t place = 0;
  std::uint64_t last_place = ~std::uint64_t{0};

  [[nodiscard]] View last() const { return {send + last_offset, recv, bytes, 0, stride, place, last_place}; }
  // Message number `i` of a call, counted from 0: of round trip `i`, or of window i / window.messages.
  [[nodiscard]] View message(std::uint64_t i) const {
    const std::uint64_t to = (place + i) & last_place;
    const auto distance = static_cast<std::ptrdiff_t>((to - place) * stride);
    return {send + distance, recv + distance, bytes, last_offset, stride, to, last_place};
  }
  // The one at the first place.
  [[nodiscard]] View first() const { return message(0 - place); }
  // Whether messages have several places, which come again.
  [[nodiscard]] bool rotates() const { return ~last_place != 0; }
  // Whether each message of a call has a place of its own.
  [[nodiscard]] bool apart() const { return stride > 0 && !rotates(); }
};

// Time stamps between the counts of a batch, where the work happens: the times of single counts of a driver whose batch
// contains anything besides its counts.
class Stamps {
 public:
  // Of batches with more counts none are taken.
  static constexpr std::uint64_t most_counts = 256;
  // The fewest that show the time of one. The first count waits until the other ends have begun, and a stamp may be
  // taken when a count begins.
  static constexpr std::uint64_t least_counts = 3;

  virtual ~Stamps() = default;
  // Later batches take stamps. If it cannot, it throws a std::exception that says why.
  virtual void take() = 0;
  // Seconds of single counts of the latest batch: of all but the first and the last.
  [[nodiscard]] virtual std::vector<double> singles_s() = 0;
};

// What a series of samples repeats, e.g. messages between two ranks.
class Driver {
 public:
  virtual ~Driver() = default;

  // Prepares for what run() repeats with this view and window, e.g. builds a datatype: run() then allocates nothing. An
  // end that cannot throws a std::exception that says why. The caller agrees on it with the other ranks (agreed_step):
  // the first message comes after that on all of them.
  virtual void prepare(const View&, const std::optional<Window>&) {}

  // What is timed: `count` round trips or, if the workload has a window, `count` windows; of other drivers, whatever
  // they repeat. Returns when the data is usable.
  virtual void run(const View& view, std::uint64_t count, const std::optional<Window>& window) = 0;

  // Called right before a timed batch, with what run() gets, and right after it.
  virtual void arm(const View&, std::uint64_t, const std::optional<Window>&) {}
  virtual void disarm() {}
  // Called after the last batch of a visit: other drivers measure next.
  virtual void rest() {}

  // Seconds of parts of a count, the means over the latest batch, if this driver times any; always as many.
  [[nodiscard]] virtual std::vector<double> parts_s() const { return {}; }

  // When a batch began and ended.
  [[nodiscard]] Span batch(const View& view, std::uint64_t count, const std::optional<Window>& window) {
    arm(view, count, window);
    const Span span = timed_span([&](std::uint64_t n) { run(view, n, window); }, count);
    disarm();
    return span;
  }
};

}  // namespace volley
