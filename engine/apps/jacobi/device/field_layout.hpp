// The layout of a domain in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/round_up.hpp"

namespace volley::jacobi {

// A warp sweeps so many bytes of a row, 16 for each thread. Rows begin at multiples of it, so that every load is
// aligned and no thread must check whether its load is inside.
inline constexpr std::int64_t pitch_bytes = 512;

// Points from row to row.
[[nodiscard]] constexpr std::int64_t device_stride(std::int64_t columns, std::size_t point_bytes) {
  const auto point = static_cast<std::int64_t>(point_bytes);
  return round_up(columns * point, pitch_bytes) / point;
}

// Bytes of both planes, with room for the points left of the first and right of the last.
[[nodiscard]] constexpr std::uint64_t device_field_bytes(std::int64_t columns, std::int64_t rows,
                                                         std::size_t point_bytes) {
  const auto points =
      static_cast<std::uint64_t>(device_stride(columns, point_bytes)) * static_cast<std::uint64_t>(rows);
  return 2 * (points * point_bytes + 2 * pitch_bytes);
}

}  // namespace volley::jacobi
