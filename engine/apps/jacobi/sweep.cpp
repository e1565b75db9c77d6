#include "jacobi/sweep.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace volley::jacobi {

namespace {

// 16 bytes of points: what every x86-64 and ARM64 has. Wider ones would not help, because memory is the limit.
template <class Real>
struct Lanes {
  typedef Real Vector __attribute__((vector_size(16)));
  static constexpr std::int64_t count = 16 / sizeof(Real);
  static constexpr std::int64_t line = line_bytes / static_cast<std::int64_t>(sizeof(Real));
};

template <class Real>
typename Lanes<Real>::Vector load(const Real* from) {
  typename Lanes<Real>::Vector value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class Real, bool streaming>
void store(Real* to, typename Lanes<Real>::Vector value) {
#if defined(__SSE2__)
  if constexpr (streaming) {
    __m128i bits;
    std::memcpy(&bits, &value, sizeof bits);
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), bits);
    return;
  }
#endif
  std::memcpy(to, &value, sizeof value);
}

// Streaming stores are ordered with nothing else: whoever reads them elsewhere must come after this.
void finish_stores() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// Where a processor has the maximum of vectors in one instruction, that counts: comparing and selecting takes four.
template <class Vector>
Vector larger(Vector a, Vector b) {
#if defined(__SSE2__)
  if constexpr (sizeof(a[0]) == sizeof(double)) return _mm_max_pd(a, b);
  else return _mm_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}

// The largest change so far. A NaN is neither above nor below anything, but no sum is finite behind it. Each vector of
// a line has its own, or each would wait for the one before.
template <class Real>
struct Largest {
  using Vector = typename Lanes<Real>::Vector;
  static constexpr std::size_t vectors = line_bytes / sizeof(Vector);
  std::array<Vector, vectors> most{};
  std::array<Vector, vectors> sum{};
  Real single = 0;
  Real single_sum = 0;

  void look(Vector change, std::size_t vector) {
    most[vector] = larger(most[vector], larger(change, -change));
    sum[vector] += change;
  }
  void look(Real change) {
    single = std::max(single, std::fabs(change));
    single_sum += change;
  }
  [[nodiscard]] Real value() const {
    Real largest = single;
    bool finite = std::isfinite(single_sum);
    for (std::size_t vector = 0; vector < vectors; ++vector) {
      for (std::int64_t lane = 0; lane < Lanes<Real>::count; ++lane) {
        finite = finite && std::isfinite(sum[vector][lane]);
        largest = std::max(largest, most[vector][lane]);
      }
    }
    return finite ? largest : std::numeric_limits<Real>::quiet_NaN();
  }
};

// One row of a sweep: `point` gives the new value of one point, `points` those of the given vector of a line.
template <class Real>
struct Stencil {
  using Vector = typename Lanes<Real>::Vector;
  const Real* above;
  const Real* here;
  const Real* below;
  const Real* ahead;  // the row that the next one needs: on its way before it is asked for
  Largest<Real> largest;

  Real point(std::int64_t x) {
    const Real value = Real(0.25) * ((here[x - 1] + here[x + 1]) + (above[x] + below[x]));
    largest.look(value - here[x]);
    return value;
  }
  Vector points(std::int64_t x, std::size_t vector) {
    if (vector == 0) __builtin_prefetch(ahead + x);
    const Vector value = Real(0.25) * ((load(here + x - 1) + load(here + x + 1)) + (load(above + x) + load(below + x)));
    largest.look(value - load(here + x), vector);
    return value;
  }
};

template <class Real>
struct Same {
  const Real* here;
  Real point(std::int64_t x) const { return here[x]; }
  typename Lanes<Real>::Vector points(std::int64_t x, std::size_t) const { return load(here + x); }
};

// Whole cache lines go out as vectors; what lies before and behind them, point by point through the cache. `row` is
// handed through by value: what no store can point at may stay in registers.
template <class Real, bool streaming, class Row>
Row write_row(Real* to, std::int64_t begin, std::int64_t end, Row row) {
  constexpr std::int64_t line = Lanes<Real>::line;
  const std::int64_t whole_begin = std::min(end, (begin + line - 1) / line * line);
  const std::int64_t whole_end = std::max(whole_begin, end / line * line);
  for (std::int64_t x = begin; x < whole_begin; ++x) to[x] = row.point(x);
  for (std::int64_t x = whole_begin; x < whole_end; x += line) {
    for (std::size_t vector = 0; vector < Largest<Real>::vectors; ++vector) {
      const std::int64_t at = x + static_cast<std::int64_t>(vector) * Lanes<Real>::count;
      store<Real, streaming>(to + at, row.points(at, vector));
    }
  }
  for (std::int64_t x = whole_end; x < end; ++x) to[x] = row.point(x);
  return row;
}

// Columns that are swept together, a whole number of lines: the rows of them that a sweep has in hand, and the one that
// is on its way, are 32 KiB and stay in the first-level cache, so that each point is read from memory once.
template <class Real>
constexpr std::int64_t tile_columns = (8 << 10) / static_cast<std::int64_t>(sizeof(Real));

template <class Real, bool streaming>
Real sweep_tiles(const Plane<Real>& from, const Plane<Real>& to, const Region& region) {
  Largest<Real> largest;
  for (std::int64_t x = region.x0; x < region.x1;) {
    const std::int64_t next = std::min(region.x1, (x / tile_columns<Real> + 1) * tile_columns<Real>);
    for (std::int64_t y = region.y0; y < region.y1; ++y) {
      const Stencil<Real> row{from.row(y - 1), from.row(y), from.row(y + 1), from.row(std::min(y + 2, region.y1)),
                              largest};
      largest = write_row<Real, streaming>(to.row(y), x, next, row).largest;
    }
    x = next;
  }
  finish_stores();
  return largest.value();
}

// Row by row: memory likes long ones best, and nothing is read twice.
template <class Real, bool streaming>
void copy_rows(const Plane<Real>& from, const Plane<Real>& to, const Region& region) {
  for (std::int64_t y = region.y0; y < region.y1; ++y) {
    (void)write_row<Real, streaming>(to.row(y), region.x0, region.x1, Same<Real>{from.row(y)});
  }
  finish_stores();
}

}  // namespace

const char* name_of(Stores stores) { return stores == Stores::streaming ? "streaming" : "cached"; }

bool can_stream() {
#if defined(__SSE2__)
  return true;
#else
  return false;
#endif
}

template <class Real>
Real sweep(const Plane<Real>& from, const Plane<Real>& to, const Region& region, Stores stores) {
  return stores == Stores::streaming ? sweep_tiles<Real, true>(from, to, region)
                                     : sweep_tiles<Real, false>(from, to, region);
}

template <class Real>
void copy(const Plane<Real>& from, const Plane<Real>& to, const Region& region, Stores stores) {
  stores == Stores::streaming ? copy_rows<Real, true>(from, to, region) : copy_rows<Real, false>(from, to, region);
}

template double sweep(const Plane<double>&, const Plane<double>&, const Region&, Stores);
template float sweep(const Plane<float>&, const Plane<float>&, const Region&, Stores);
template void copy(const Plane<double>&, const Plane<double>&, const Region&, Stores);
template void copy(const Plane<float>&, const Plane<float>&, const Region&, Stores);

}  // namespace volley::jacobi
