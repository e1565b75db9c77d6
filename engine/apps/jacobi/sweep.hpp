// The arithmetic of an iteration on a rectangle of points in host memory.
#pragma once

#include <cstdint>

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

// Writes ¼((left + right) + (up + down)) of `from` to every point of `region` in `to`. Returns the largest |new - old|,
// or NaN where a new value is not finite. `around_caches`: the planes are larger than the caches, which do not keep the
// new values.
[[nodiscard]] double sweep(const Plane<double>& from, const Plane<double>& to, const Region& region,
                           bool around_caches);
[[nodiscard]] float sweep(const Plane<float>& from, const Plane<float>& to, const Region& region, bool around_caches);

}  // namespace volley::jacobi
