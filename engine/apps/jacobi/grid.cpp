#include "jacobi/grid.hpp"

#include <cmath>
#include <numbers>

namespace volley::jacobi {

namespace {

constexpr double pi = std::numbers::pi;

}  // namespace

const char* name_of(Side side) {
  switch (side) {
    case Side::left: return "left";
    case Side::right: return "right";
    case Side::up: return "up";
    case Side::down: return "down";
  }
  return "";
}

Grid::Grid(const JacobiOptions& plan, int rank)
    : wide_(plan.grid[0]),
      high_(plan.grid[1]),
      columns_(plan.domain[0]),
      rows_(plan.domain[1]),
      across_(rank % plan.grid[0]),
      along_(rank / plan.grid[0]) {}

std::optional<int> Grid::neighbour(Side side) const {
  const std::int64_t across = across_ + (side == Side::right ? 1 : side == Side::left ? -1 : 0);
  const std::int64_t along = along_ + (side == Side::down ? 1 : side == Side::up ? -1 : 0);
  if (across < 0 || across >= wide_ || along < 0 || along >= high_) return std::nullopt;
  return static_cast<int>(along * wide_ + across);
}

Region Grid::free() const {
  return {neighbour(Side::left) ? 0 : 1, columns_ - (neighbour(Side::right) ? 0 : 1), neighbour(Side::up) ? 0 : 1,
          rows_ - (neighbour(Side::down) ? 0 : 1)};
}

Region Grid::interior() const { return {1, columns_ - 1, 1, rows_ - 1}; }

std::array<Region, 4> Grid::edges() const {
  const Region all = free();
  const Region inner = interior();
  return {Region{all.x0, inner.x0, all.y0, all.y1}, Region{inner.x1, all.x1, all.y0, all.y1},
          Region{inner.x0, inner.x1, all.y0, inner.y0}, Region{inner.x0, inner.x1, inner.y1, all.y1}};
}

double boundary_value(const Grid& grid, std::int64_t column, std::int64_t row) {
  if (column == 0) return exact_sine(grid, row);
  if (column == grid.all_columns() - 1) return exact_sine(grid, row) * std::exp(-pi);
  return 0;
}

double exact_sine(const Grid& grid, std::int64_t row) {
  return std::sin(pi * static_cast<double>(row) / static_cast<double>(grid.all_rows() - 1));
}

double exact_profile(const Grid& grid, std::int64_t column) {
  const double height = static_cast<double>(grid.all_rows() - 1);
  const double length = pi * static_cast<double>(grid.all_columns() - 1) / height;
  const double left = pi * static_cast<double>(column) / height;
  const double right = pi * static_cast<double>(grid.all_columns() - 1 - column) / height;
  // sinh(a) / sinh(b) = e^(a - b) (1 - e^-2a) / (1 - e^-2b); expm1 keeps the digits of small a and b.
  const double whole = -std::expm1(-2 * length);
  return (std::exp(-left) * -std::expm1(-2 * right) + std::exp(-pi - right) * -std::expm1(-2 * left)) / whole;
}

}  // namespace volley::jacobi
