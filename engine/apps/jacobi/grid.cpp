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

Grid::Grid(std::array<int, 2> processes, std::array<std::int64_t, 2> domain, int rank)
    : processes_x_(processes[0]),
      processes_y_(processes[1]),
      columns_(domain[0]),
      rows_(domain[1]),
      x_(rank % processes[0]),
      y_(rank / processes[0]) {}

std::optional<int> Grid::neighbour(Side side) const {
  const std::int64_t x = x_ + (side == Side::right ? 1 : side == Side::left ? -1 : 0);
  const std::int64_t y = y_ + (side == Side::down ? 1 : side == Side::up ? -1 : 0);
  if (x < 0 || x >= processes_x_ || y < 0 || y >= processes_y_) return std::nullopt;
  return static_cast<int>(y * processes_x_ + x);
}

std::uint64_t Grid::messages() const {
  return 2 * static_cast<std::uint64_t>((processes_x_ - 1) * processes_y_ + (processes_y_ - 1) * processes_x_);
}

Region Grid::free() const {
  return {neighbour(Side::left) ? 0 : 1, columns_ - (neighbour(Side::right) ? 0 : 1), neighbour(Side::up) ? 0 : 1,
          rows_ - (neighbour(Side::down) ? 0 : 1)};
}

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
