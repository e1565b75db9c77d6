// How fast the CPU is at present.
#pragma once

#include "measure/timing_loop.hpp"

namespace volley {

// Seconds of a fixed piece of work, which show how fast the CPU is at present: the clock frequency, and other work on
// the core. Some microseconds of integer arithmetic in registers, the same in every call. Caches stay as they are.
[[nodiscard]] inline double fixed_work_s() {
  constexpr std::uint64_t passes = 6000;
  return timed(
      [](std::uint64_t count) {
        // Four independent chains keep the multiplier busy: work on the core's other hardware thread then shows, too.
        // The empty asm statements are a barrier for the optimiser only.
        std::uint64_t a = 1, b = 2, c = 3, d = 4;
        for (std::uint64_t i = 0; i < count; ++i) {
          a = a * 0xBF58476D1CE4E5B9ULL + i;
          b = b * 0xBF58476D1CE4E5B9ULL + i;
          c = c * 0xBF58476D1CE4E5B9ULL + i;
          d = d * 0xBF58476D1CE4E5B9ULL + i;
          asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
        }
      },
      passes);
}

}  // namespace volley
