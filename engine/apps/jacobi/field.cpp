#include "jacobi/field.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <type_traits>
#include <vector>

#include "host/pattern.hpp"

namespace volley::jacobi {

namespace {

// A row: one line in front, whose last point is the left halo; the points; the right halo, up to the end of a line. One
// line more where rows would follow each other in steps of 4 KiB, which the first-level cache cannot keep apart.
std::int64_t stride_bytes(std::int64_t columns, std::int64_t point_bytes) {
  const std::int64_t lines = 1 + (columns * point_bytes) / line_bytes + 1;
  return (lines % 64 == 0 ? lines + 1 : lines) * line_bytes;
}

template <class Real>
std::uint64_t bits_of(Real value) {
  if constexpr (sizeof(Real) == 8) return std::bit_cast<std::uint64_t>(value);
  else return std::bit_cast<std::uint32_t>(value);
}

std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// `value(row)` of every row, each by its thread, and all of them put together.
template <class Value, class OfRow, class Together>
Value over_rows(const Grid& grid, Team& team, const OfRow& of_row, const Together& together) {
  std::vector<Value> parts(static_cast<std::size_t>(team.size()), Value{});
  const Region all{0, grid.columns(), 0, grid.rows()};
  team.run([&](int thread) {
    const Region mine = share_of(all, grid.rows(), thread, team.size());
    Value value{};
    for (std::int64_t y = mine.y0; y < mine.y1; ++y) value = together(value, of_row(y));
    parts[static_cast<std::size_t>(thread)] = value;
  });
  return std::accumulate(parts.begin(), parts.end(), Value{}, together);
}

}  // namespace

Region share_of(const Region& region, std::int64_t rows, int thread, int threads) {
  Region share = region;
  share.y0 = std::max(region.y0, rows * thread / threads);
  share.y1 = std::min(region.y1, rows * (thread + 1) / threads);
  return share;
}

std::uint64_t field_bytes(std::int64_t columns, std::int64_t rows, std::size_t point_bytes) {
  return 2 * static_cast<std::uint64_t>(rows + 2) *
         static_cast<std::uint64_t>(stride_bytes(columns, static_cast<std::int64_t>(point_bytes)));
}

template <class Real>
Field<Real>::Field(const Grid& grid, Team& team) {
  const std::uint64_t bytes = field_bytes(grid.columns(), grid.rows(), sizeof(Real)) / 2;
  const std::int64_t stride = stride_bytes(grid.columns(), sizeof(Real)) / static_cast<std::int64_t>(sizeof(Real));
  for (std::size_t i = 0; i < planes_.size(); ++i) {
    memory_[i] = Mapping(bytes);
    // Fewer misses of the address translation; where the kernel has no large pages, small ones do.
    (void)madvise(memory_[i].data(), bytes, MADV_HUGEPAGE);
    constexpr std::int64_t lead = line_bytes / static_cast<std::int64_t>(sizeof(Real));
    planes_[i] = {reinterpret_cast<Real*>(memory_[i].data()) + stride + lead, stride};
  }
  team.run([&](int thread) {
    const Region mine = share_of({0, grid.columns(), 0, grid.rows()}, grid.rows(), thread, team.size());
    for (std::size_t i = 0; i < planes_.size(); ++i) {
      begin_rows(grid, static_cast<int>(i), mine.y0 - (thread == 0 ? 1 : 0),
                 mine.y1 + (thread == team.size() - 1 ? 1 : 0));
    }
  });
}

template <class Real>
void Field<Real>::begin_rows(const Grid& grid, int plane, std::int64_t y0, std::int64_t y1) {
  const Plane<Real>& points = planes_[static_cast<std::size_t>(plane)];
  const Region free = grid.free();
  constexpr std::int64_t lead = line_bytes / static_cast<std::int64_t>(sizeof(Real));
  for (std::int64_t y = y0; y < y1; ++y) {
    Real* row = points.row(y);
    std::fill(row - lead, row - lead + points.stride, Real(0));
    if (y < 0 || y >= grid.rows()) continue;
    for (const std::int64_t x : {std::int64_t{0}, grid.columns() - 1}) {  // all other fixed points are 0
      const bool fixed = x < free.x0 || x >= free.x1;
      if (fixed) row[x] = static_cast<Real>(boundary_value(grid, grid.first_column() + x, grid.first_row() + y));
    }
  }
}

template <class Real>
std::uint64_t hash_of(const Field<Real>& field, const Grid& grid, Team& team) {
  const auto of_row = [&](std::int64_t y) {
    const Real* row = field.now().row(y);
    const auto number = static_cast<std::uint64_t>((grid.first_row() + y) * grid.all_columns() + grid.first_column());
    std::uint64_t sum = 0;
    for (std::int64_t x = 0; x < grid.columns(); ++x) {
      sum += mixed((number + static_cast<std::uint64_t>(x)) * pattern_step ^ mixed(bits_of(row[x])));
    }
    return sum;
  };
  return over_rows<std::uint64_t>(grid, team, of_row, std::plus<>());
}

template <class Real>
double error_of(const Field<Real>& field, const Grid& grid, Team& team) {
  std::vector<double> profile(static_cast<std::size_t>(grid.columns()));
  for (std::size_t x = 0; x < profile.size(); ++x) {
    profile[x] = exact_profile(grid, grid.first_column() + static_cast<std::int64_t>(x));
  }
  const auto of_row = [&](std::int64_t y) {
    const Real* row = field.now().row(y);
    const double sine = exact_sine(grid, grid.first_row() + y);
    double most = 0;
    for (std::size_t x = 0; x < profile.size(); ++x) {
      most = std::max(most, std::fabs(static_cast<double>(row[x]) - sine * profile[x]));
    }
    return most;
  };
  return over_rows<double>(grid, team, of_row, [](double a, double b) { return std::max(a, b); });
}

template <class Real>
std::optional<std::array<std::int64_t, 2>> first_broken(const Field<Real>& field, const Grid& grid) {
  for (std::int64_t y = 0; y < grid.rows(); ++y) {
    const Real* row = field.now().row(y);
    const Real* found = std::find_if(row, row + grid.columns(), [](Real value) { return !std::isfinite(value); });
    if (found != row + grid.columns()) return std::array{grid.first_column() + (found - row), grid.first_row() + y};
  }
  return std::nullopt;
}

template class Field<double>;
template class Field<float>;
template std::uint64_t hash_of(const Field<double>&, const Grid&, Team&);
template std::uint64_t hash_of(const Field<float>&, const Grid&, Team&);
template double error_of(const Field<double>&, const Grid&, Team&);
template double error_of(const Field<float>&, const Grid&, Team&);
template std::optional<std::array<std::int64_t, 2>> first_broken(const Field<double>&, const Grid&);
template std::optional<std::array<std::int64_t, 2>> first_broken(const Field<float>&, const Grid&);

}  // namespace volley::jacobi
