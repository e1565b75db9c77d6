// Planes of points: their layout in memory, and the arithmetic of an iteration on a rectangle of points in host memory.
#pragma once

#include "host/memory.hpp"
#include "jacobi/grid.hpp"

namespace volley::jacobi {

inline constexpr std::int64_t cache_line_bytes = 64;

// Points in memory, row by row. In host memory every row begins at a cache line.
template <class Real>
struct Plane {
  Real* origin = nullptr;   // of column 0 of row 0
  std::int64_t stride = 0;  // points from row to row
  [[nodiscard]] constexpr Real* row(std::int64_t y) const { return origin + y * stride; }
};

// A row is one cache line, whose last point is the left halo; the points; the right halo, up to the end of a line. It
// gets one line more if its length would be a multiple of 4 KiB: such rows compete for places of the first-level cache.
[[nodiscard]] constexpr std::int64_t host_stride_bytes(std::int64_t columns, std::size_t point_bytes) {
  const std::int64_t lines = 1 + (columns * static_cast<std::int64_t>(point_bytes)) / cache_line_bytes + 1;
  return (lines % 64 == 0 ? lines + 1 : lines) * cache_line_bytes;
}

[[nodiscard]] constexpr std::uint64_t host_field_bytes(std::int64_t columns, std::int64_t rows,
                                                       std::size_t point_bytes) {
  return 2 * static_cast<std::uint64_t>(rows + 2) * static_cast<std::uint64_t>(host_stride_bytes(columns, point_bytes));
}

// A warp sweeps this many bytes of a row, 16 for each thread. Rows begin at multiples of it, so that every load is
// aligned and no thread must check whether its load is inside.
inline constexpr std::int64_t pitch_bytes = 512;

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

// Writes ¼((left + right) + (up + down)) of `from` to every point of `region` in `to`. Returns the largest |new - old|,
// or NaN where a new value is not finite. `around_caches`: the caches do not keep the new values.
[[nodiscard]] double sweep(const Plane<double>& from, const Plane<double>& to, const Region& region,
                           bool around_caches);
[[nodiscard]] float sweep(const Plane<float>& from, const Plane<float>& to, const Region& region, bool around_caches);

// Copies to memory that nobody reads soon: where the processor can, whole cache lines are stored without being read
// from memory before, and stay in no cache.
void streaming_copy(const void* from, void* to, std::size_t bytes);
// Orders the stores of streaming_copy() before later stores: without this, another thread may read old values.
void order_streaming_stores();

}  // namespace volley::jacobi
