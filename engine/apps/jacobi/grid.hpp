// A grid of processes over a rectangle of points, and the problem on it: Laplace's equation with a fixed boundary.
//
// Points are counted from 0: columns along x, rows along y. Whatever counts points has 64 bits.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "jacobi/options.hpp"

namespace volley::jacobi {

enum class Side { left, right, up, down };
inline constexpr std::array sides{Side::left, Side::right, Side::up, Side::down};
[[nodiscard]] const char* name_of(Side side);

// Points [x0, x1) × [y0, y1) of a local domain.
struct Region {
  std::int64_t x0 = 0;
  std::int64_t x1 = 0;
  std::int64_t y0 = 0;
  std::int64_t y1 = 0;
  [[nodiscard]] bool empty() const { return x0 >= x1 || y0 >= y1; }
  [[nodiscard]] std::int64_t points() const { return empty() ? 0 : (x1 - x0) * (y1 - y0); }
};

// Where the process `rank` is: ranks fill the grid row by row.
class Grid {
 public:
  Grid(const JacobiOptions& plan, int rank);

  [[nodiscard]] std::int64_t columns() const { return columns_; }  // of the local domain
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t all_columns() const { return wide_ * columns_; }  // of the global domain
  [[nodiscard]] std::int64_t all_rows() const { return high_ * rows_; }
  [[nodiscard]] std::int64_t first_column() const { return across_ * columns_; }  // the local domain's, globally
  [[nodiscard]] std::int64_t first_row() const { return along_ * rows_; }
  // Points that an iteration updates: all but the outermost of the global domain.
  [[nodiscard]] std::int64_t updates() const { return (all_columns() - 2) * (all_rows() - 2); }

  [[nodiscard]] std::optional<int> neighbour(Side side) const;
  // The points of the local domain that are not fixed.
  [[nodiscard]] Region free() const;
  // Those among them whose new values need no halo.
  [[nodiscard]] Region interior() const;
  // The free points that are not interior: a column or a row for each neighbour; the columns have the corners.
  [[nodiscard]] std::array<Region, 4> edges() const;
  // Position of this process among those of its row and of its column: even ones pair up with the next one first.
  [[nodiscard]] std::int64_t across() const { return across_; }
  [[nodiscard]] std::int64_t along() const { return along_; }

 private:
  std::int64_t wide_;
  std::int64_t high_;
  std::int64_t columns_;
  std::int64_t rows_;
  std::int64_t across_;
  std::int64_t along_;
};

// The fixed value of a point on the global boundary: sin(pi j / (Ny - 1)) in the left column at row j, e^-pi times that
// in the right one, 0 in the top and bottom rows between them.
[[nodiscard]] double boundary_value(const Grid& grid, std::int64_t column, std::int64_t row);

// The solution of the continuous problem at a point is sine(row) · profile(column). With L = (Nx - 1) / (Ny - 1),
// x = column / (Ny - 1) and y = row / (Ny - 1):
//   u = sin(pi y) [sinh(pi (L - x)) + e^-pi sinh(pi x)] / sinh(pi L),
// evaluated with exponentials of negative numbers only, so that no L overflows.
[[nodiscard]] double exact_sine(const Grid& grid, std::int64_t row);
[[nodiscard]] double exact_profile(const Grid& grid, std::int64_t column);

}  // namespace volley::jacobi
