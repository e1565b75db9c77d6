#include "measure/fixed_work.hpp"

#include <cstdint>

#include "measure/timing_loop.hpp"

namespace volley {

double fixed_work_s() {
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
