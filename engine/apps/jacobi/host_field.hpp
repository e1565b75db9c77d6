// The points of a local domain in host memory, in two planes: before and after an iteration. Each has room for the
// halos.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <type_traits>
#include <vector>

#include "host/memory.hpp"
#include "jacobi/grid.hpp"
#include "jacobi/point_hash.hpp"
#include "jacobi/streaming_copy.hpp"
#include "jacobi/sweep.hpp"
#include "jacobi/thread_team.hpp"

namespace volley::jacobi {

// A row is one cache line, whose last point is the left halo; the points; the right halo, up to the end of a line. It
// gets one line more if its length would be a multiple of 4 KiB: such rows would compete for the same places of the
// first-level cache.
[[nodiscard]] constexpr std::int64_t host_stride_bytes(std::int64_t columns, std::size_t point_bytes) {
  const std::int64_t lines = 1 + (columns * static_cast<std::int64_t>(point_bytes)) / cache_line_bytes + 1;
  return (lines % 64 == 0 ? lines + 1 : lines) * cache_line_bytes;
}

// Bytes of both planes, padding included.
[[nodiscard]] constexpr std::uint64_t host_field_bytes(std::int64_t columns, std::int64_t rows,
                                                       std::size_t point_bytes) {
  return 2 * static_cast<std::uint64_t>(rows + 2) * static_cast<std::uint64_t>(host_stride_bytes(columns, point_bytes));
}

// More than a core's share of the caches on any processor.
inline constexpr std::uint64_t cached_bytes_per_thread = std::uint64_t{16} << 20;

// The rows of `region` that belong to a thread if `rows` rows are distributed evenly. They are the same in every call,
// so that a thread works on memory that it touched first.
[[nodiscard]] inline Region share_of(const Region& region, std::int64_t rows, int thread, int threads) {
  Region share = region;
  share.y0 = std::max(region.y0, rows * thread / threads);
  share.y1 = std::min(region.y1, rows * (thread + 1) / threads);
  return share;
}

template <class Real>
class HostField {
 public:
  // Boundary values and zeros, written by the threads that will work on them.
  HostField(const Grid& grid, ThreadTeam& team) : grid_(grid), team_(team) {
    const std::uint64_t bytes = host_field_bytes(grid.columns(), grid.rows(), sizeof(Real));
    const std::int64_t stride = host_stride_bytes(grid.columns(), sizeof(Real)) / std::int64_t{sizeof(Real)};
    around_caches_ = bytes / static_cast<std::uint64_t>(team.size()) > cached_bytes_per_thread;
    for (std::size_t i = 0; i < planes_.size(); ++i) {
      memory_[i] = Mapping(bytes / 2);
      // Large pages cause fewer TLB misses. If the kernel has none, it uses small ones.
      (void)madvise(memory_[i].data(), bytes / 2, MADV_HUGEPAGE);
      planes_[i] = {reinterpret_cast<Real*>(memory_[i].data()) + stride + points_in_front, stride};
    }
    team.run([&](int thread) {
      const Region mine = share_of(grid.all(), grid.rows(), thread, team.size());
      const std::int64_t y0 = mine.y0 - (thread == 0 ? 1 : 0);
      const std::int64_t y1 = mine.y1 + (thread == team.size() - 1 ? 1 : 0);
      for (const auto& plane : planes_) write_initial_rows(plane, y0, y1);
    });
  }

  [[nodiscard]] const Plane<Real>& now() const { return planes_[current_]; }
  [[nodiscard]] const Plane<Real>& next() const { return planes_[1 - current_]; }
  void turn() { current_ = 1 - current_; }

  // From now() to next(); see sweep.hpp.
  [[nodiscard]] Real sweep(const Region& region) const { return jacobi::sweep(now(), next(), region, around_caches_); }

  // Copies every point from now() to next().
  void copy() const {
    const std::size_t bytes = static_cast<std::size_t>(grid_.columns()) * sizeof(Real);
    team_.run([&](int thread) {
      const Region mine = share_of(grid_.all(), grid_.rows(), thread, team_.size());
      for (std::int64_t y = mine.y0; y < mine.y1; ++y) {
        if (around_caches_) streaming_copy(now().row(y), next().row(y), bytes);
        else std::memcpy(next().row(y), now().row(y), bytes);
      }
      order_streaming_stores();
    });
  }

  // The sum of the hashes of this rank's points (point_hash.hpp).
  [[nodiscard]] std::uint64_t hash() const {
    using Bits = std::conditional_t<sizeof(Real) == sizeof(std::uint64_t), std::uint64_t, std::uint32_t>;
    const auto of_row = [&](std::int64_t y) {
      const Real* row = now().row(y);
      const std::uint64_t first = point_number(grid_, y);
      std::uint64_t sum = 0;
      for (std::int64_t x = 0; x < grid_.columns(); ++x) {
        sum += point_hash(first + static_cast<std::uint64_t>(x), std::bit_cast<Bits>(row[x]));
      }
      return sum;
    };
    return over_rows<std::uint64_t>(of_row, std::plus<>());
  }

  // The largest deviation of this rank's points from the exact solution of the continuous problem.
  [[nodiscard]] double deviation() const {
    std::vector<double> profile(static_cast<std::size_t>(grid_.columns()));
    for (std::size_t x = 0; x < profile.size(); ++x) {
      profile[x] = exact_profile(grid_, grid_.first_column() + static_cast<std::int64_t>(x));
    }
    const auto of_row = [&](std::int64_t y) {
      const Real* row = now().row(y);
      const double sine = exact_sine(grid_, grid_.first_row() + y);
      double most = 0;
      for (std::size_t x = 0; x < profile.size(); ++x) {
        most = std::max(most, std::fabs(static_cast<double>(row[x]) - sine * profile[x]));
      }
      return most;
    };
    return over_rows<double>(of_row, [](double a, double b) { return std::max(a, b); });
  }

  // The global column and row of this rank's first point that is not finite.
  [[nodiscard]] std::optional<std::array<std::int64_t, 2>> first_broken() const {
    for (std::int64_t y = 0; y < grid_.rows(); ++y) {
      const Real* row = now().row(y);
      const Real* end = row + grid_.columns();
      const Real* broken = std::find_if(row, end, [](Real value) { return !std::isfinite(value); });
      if (broken != end) return std::array{grid_.first_column() + (broken - row), grid_.first_row() + y};
    }
    return std::nullopt;
  }

 private:
  static constexpr std::int64_t points_in_front = cache_line_bytes / std::int64_t{sizeof(Real)};

  void write_initial_rows(const Plane<Real>& plane, std::int64_t y0, std::int64_t y1) const {
    const Region free = grid_.free();
    for (std::int64_t y = y0; y < y1; ++y) {
      Real* row = plane.row(y);
      std::fill_n(row - points_in_front, plane.stride, Real(0));
      if (y < 0 || y >= grid_.rows()) continue;
      for (const std::int64_t x : {std::int64_t{0}, grid_.columns() - 1}) {  // all other fixed points are 0
        const bool fixed = x < free.x0 || x >= free.x1;
        if (fixed) row[x] = static_cast<Real>(boundary_value(grid_, grid_.first_column() + x, grid_.first_row() + y));
      }
    }
  }

  // Calls `of_row(y)` for every row, on the thread of the row, and combines the values.
  template <class Value, class OfRow, class Combine>
  [[nodiscard]] Value over_rows(const OfRow& of_row, const Combine& combine) const {
    std::vector<Value> parts(static_cast<std::size_t>(team_.size()), Value{});
    team_.run([&](int thread) {
      const Region mine = share_of(grid_.all(), grid_.rows(), thread, team_.size());
      Value value{};
      for (std::int64_t y = mine.y0; y < mine.y1; ++y) value = combine(value, of_row(y));
      parts[static_cast<std::size_t>(thread)] = value;
    });
    return std::accumulate(parts.begin(), parts.end(), Value{}, combine);
  }

  const Grid& grid_;
  ThreadTeam& team_;
  std::array<Mapping, 2> memory_;
  std::array<Plane<Real>, 2> planes_;
  std::size_t current_ = 0;
  bool around_caches_ = false;
};

}  // namespace volley::jacobi
