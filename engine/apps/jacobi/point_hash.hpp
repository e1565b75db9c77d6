// A hash of the field that does not depend on the grid of processes: each point adds its own, modulo 2^64.
#pragma once

#include <cstdint>

#include "host/pattern.hpp"
#include "jacobi/grid.hpp"

namespace volley::jacobi {

// The hash of a point: SplitMix64's finaliser (Steele, Lea, Flood 2014) over its number in the global domain and the
// bits of its value.
[[nodiscard]] constexpr std::uint64_t point_hash(std::uint64_t number, std::uint64_t bits) {
  return mixed(number * pattern_step ^ mixed(bits));
}

// The number of the first point of a local domain. Numbers are modulo 2^64, like the sum.
[[nodiscard]] inline std::uint64_t point_number(const Grid& grid, std::int64_t row) {
  return static_cast<std::uint64_t>(grid.first_row() + row) * static_cast<std::uint64_t>(grid.all_columns()) +
         static_cast<std::uint64_t>(grid.first_column());
}

}  // namespace volley::jacobi
