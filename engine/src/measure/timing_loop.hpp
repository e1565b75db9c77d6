// THE timing loop. Every measurement by the host goes through `timed_span`.
#pragma once

#include <cstdint>
#include <utility>

#include "base/clock.hpp"

namespace volley {

// Two clock readings.
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

// The same in seconds.
template <class Body>
[[nodiscard]] double timed(Body&& body, std::uint64_t count) {
  return seconds_of(timed_span(std::forward<Body>(body), count));
}

// Of a body that runs once.
template <class Body>
[[nodiscard]] double timed(Body&& body) {
  return timed([&](std::uint64_t) { body(); }, 1);
}

}  // namespace volley
