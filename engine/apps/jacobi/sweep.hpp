// The arithmetic of an iteration on a rectangle of points, and the copy that its bandwidth is held against.
//
// sweep.cpp is compiled with -ffp-contract=off: where a multiplication and an addition are fused into one rounding, the
// result would depend on the processor.
#pragma once

#include <cstdint>

#include "host/pattern.hpp"  // VOLLEY_ON_BOTH
#include "jacobi/grid.hpp"

namespace volley::jacobi {

// How results are stored. A streaming store goes around the caches: the line is not read first, so that nothing but the
// compulsory bytes moves. For arrays that stay in the caches it is the slower one.
enum class Stores { cached, streaming };
[[nodiscard]] const char* name_of(Stores stores);

// Whether this processor's streaming stores are known here; without them every store is a cached one.
[[nodiscard]] bool can_stream();

inline constexpr std::int64_t line_bytes = 64;

// Points in memory, row by row. `origin` begins a cache line, and so does every row.
template <class Real>
struct Plane {
  Real* origin = nullptr;
  std::int64_t stride = 0;  // from row to row
  [[nodiscard]] VOLLEY_ON_BOTH Real* row(std::int64_t y) const { return origin + y * stride; }
};

// Writes ¼((left + right) + (up + down)) of `from` to every point of `region` in `to`. Returns the largest |new - old|;
// NaN where one of them is no finite number.
template <class Real>
[[nodiscard]] Real sweep(const Plane<Real>& from, const Plane<Real>& to, const Region& region, Stores stores);

// Copies every point of `region`.
template <class Real>
void copy(const Plane<Real>& from, const Plane<Real>& to, const Region& region, Stores stores);

}  // namespace volley::jacobi
