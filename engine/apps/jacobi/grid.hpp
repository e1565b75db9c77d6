// A grid of processes over a rectangle of points, and the problem on it: Laplace's equation with a fixed boundary.
// Points are counted from 0: columns along x, rows along y.
#pragma once

#include <array>
#include <cmath>
#include <numbers>

#include "messages/memory.hpp"

namespace volley::jacobi {

enum class Side { left, right, up, down };

[[nodiscard]] inline const char* name_of(Side side) {
  constexpr std::array names{"left", "right", "up", "down"};
  return names[static_cast<std::size_t>(side)];
}

// Points [x0, x1) × [y0, y1) of a local domain.
struct Region {
  std::int64_t x0 = 0;
  std::int64_t x1 = 0;
  std::int64_t y0 = 0;
  std::int64_t y1 = 0;
  [[nodiscard]] bool empty() const { return x0 >= x1 || y0 >= y1; }
  [[nodiscard]] std::int64_t points() const { return empty() ? 0 : (x1 - x0) * (y1 - y0); }
};

// One process of a grid; ranks fill it row by row.
struct Grid {
  std::int64_t processes_x, processes_y;
  std::int64_t columns, rows;  // of the local domain
  std::int64_t x, y;           // the place of this process in the grid

  // Both arrays: along x and y.
  Grid(std::array<int, 2> processes, std::array<std::int64_t, 2> domain, int rank)
      : processes_x(processes[0]),
        processes_y(processes[1]),
        columns(domain[0]),
        rows(domain[1]),
        x(rank % processes[0]),
        y(rank / processes[0]) {}

  [[nodiscard]] std::int64_t all_columns() const { return processes_x * columns; }  // of the global domain
  [[nodiscard]] std::int64_t all_rows() const { return processes_y * rows; }
  [[nodiscard]] std::int64_t first_column() const { return x * columns; }  // of the local domain, globally
  [[nodiscard]] std::int64_t first_row() const { return y * rows; }

  [[nodiscard]] std::optional<int> neighbour(Side side) const {
    const std::int64_t at_x = x + (side == Side::right ? 1 : side == Side::left ? -1 : 0);
    const std::int64_t at_y = y + (side == Side::down ? 1 : side == Side::up ? -1 : 0);
    if (at_x < 0 || at_x >= processes_x || at_y < 0 || at_y >= processes_y) return std::nullopt;
    return static_cast<int>(at_y * processes_x + at_x);
  }

  [[nodiscard]] std::uint64_t messages() const {
    return 2 * static_cast<std::uint64_t>((processes_x - 1) * processes_y + (processes_y - 1) * processes_x);
  }

  [[nodiscard]] Region all() const { return {0, columns, 0, rows}; }
  // The points of the local domain that are not fixed.
  [[nodiscard]] Region free() const {
    return {neighbour(Side::left) ? 0 : 1, columns - (neighbour(Side::right) ? 0 : 1), neighbour(Side::up) ? 0 : 1,
            rows - (neighbour(Side::down) ? 0 : 1)};
  }

  // The points whose new values need no halo.
  [[nodiscard]] Region interior() const { return {1, columns - 1, 1, rows - 1}; }
  // The free points that are not interior, in the order of Side: a line for each neighbour; columns have the corners.
  [[nodiscard]] std::array<Region, 4> edges() const {
    const Region all = free();
    const Region inner = interior();
    return {Region{all.x0, inner.x0, all.y0, all.y1}, Region{inner.x1, all.x1, all.y0, all.y1},
            Region{inner.x0, inner.x1, all.y0, inner.y0}, Region{inner.x0, inner.x1, inner.y1, all.y1}};
  }
};

inline constexpr double pi = std::numbers::pi;

// The solution of the continuous problem at a point is sine(row) · profile(column). With L = (Nx - 1) / (Ny - 1),
// x = column / (Ny - 1) and y = row / (Ny - 1):
//   u = sin(pi y) [sinh(pi (L - x)) + e^-pi sinh(pi x)] / sinh(pi L),
// evaluated with exponentials of negative numbers only, so that no L overflows.
[[nodiscard]] inline double exact_sine(const Grid& grid, std::int64_t row) {
  return std::sin(pi * static_cast<double>(row) / static_cast<double>(grid.all_rows() - 1));
}

[[nodiscard]] inline double exact_profile(const Grid& grid, std::int64_t column) {
  const double height = static_cast<double>(grid.all_rows() - 1);
  const double length = pi * static_cast<double>(grid.all_columns() - 1) / height;
  const double left = pi * static_cast<double>(column) / height;
  const double right = pi * static_cast<double>(grid.all_columns() - 1 - column) / height;
  // sinh(a) / sinh(b) = e^(a - b) (1 - e^-2a) / (1 - e^-2b); expm1 keeps the digits of small a and b.
  const double whole = -std::expm1(-2 * length);
  return (std::exp(-left) * -std::expm1(-2 * right) + std::exp(-pi - right) * -std::expm1(-2 * left)) / whole;
}

// The fixed value of a point on the global boundary: sin(pi j / (Ny - 1)) in the left column at row j, e^-pi times that
// in the right one, 0 in the top and bottom rows between them.
[[nodiscard]] inline double boundary_value(const Grid& grid, std::int64_t column, std::int64_t row) {
  if (column == 0) return exact_sine(grid, row);
  if (column == grid.all_columns() - 1) return exact_sine(grid, row) * std::exp(-pi);
  return 0;
}

// The hash of the field does not depend on the grid of processes: each point adds its own, modulo 2^64, of its number
// in the global domain and the bits of its value.
[[nodiscard]] constexpr std::uint64_t point_hash(std::uint64_t number, std::uint64_t bits) {
  return mixed(number * pattern_step ^ mixed(bits));
}

// The number of the first point of a local domain. Numbers are modulo 2^64, like the sum.
[[nodiscard]] inline std::uint64_t point_number(const Grid& grid, std::int64_t row) {
  return static_cast<std::uint64_t>(grid.first_row() + row) * static_cast<std::uint64_t>(grid.all_columns()) +
         static_cast<std::uint64_t>(grid.first_column());
}

// --- planes of points in memory, and the arithmetic of an iteration on a rectangle of points in host memory ---

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

// The global column and row of the first point that is not finite; `row_at(y)` is where row y of the domain is.
template <class RowAt>
[[nodiscard]] std::optional<std::array<std::int64_t, 2>> first_broken_point(const Grid& grid, const RowAt& row_at) {
  for (std::int64_t y = 0; y < grid.rows; ++y) {
    const auto* const row = row_at(y);
    for (std::int64_t x = 0; x < grid.columns; ++x) {
      if (!std::isfinite(row[x])) return std::array{grid.first_column() + x, grid.first_row() + y};
    }
  }
  return std::nullopt;
}

// Copies to memory that nobody reads soon: where the processor can, whole cache lines are stored without being read
// from memory before, and stay in no cache.
void streaming_copy(const void* from, void* to, std::size_t bytes);
// Orders the stores of streaming_copy() before later stores: without this, another thread may read old values.
void order_streaming_stores();

}  // namespace volley::jacobi
