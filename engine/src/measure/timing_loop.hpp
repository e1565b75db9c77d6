// THE timing loop. Everything that volley times goes through `timed`.
#pragma once

#include <cstdint>

#include "base/clock.hpp"

namespace volley {

// Seconds that `body(count)` takes: one clock pair around `count` exchanges back to back, nothing else.
//
// The empty asm statements are a barrier for the optimiser only: no work of the body may move across a clock
// reading, and a body that does nothing (count = 0) is still called. `body` returns when its data is usable.
template <class Body>
[[nodiscard]] double timed(Body&& body, std::uint64_t count) {
  asm volatile("" ::: "memory");
  const auto begin = Clock::now();
  asm volatile("" ::: "memory");
  body(count);
  asm volatile("" ::: "memory");
  const auto end = Clock::now();
  asm volatile("" ::: "memory");
  return seconds_between(begin, end);
}

}  // namespace volley
