// Compiled with -ffp-contract=off: where a multiplication and an addition are fused into one rounding, the result would
// depend on the processor. With -fopenmp-simd the compiler may reorder the two reductions, whose order changes nothing.
#include "jacobi/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

// The compiler makes a version for each of these instruction sets, and the processor's is called. With 64 bytes at once
// a field in the third-level cache took half as long as with 16 (AMD EPYC, Zen 5).
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define VOLLEY_FOR_EACH_PROCESSOR __attribute__((target_clones("default", "avx2", "avx512f")))
#endif
#endif
#ifndef VOLLEY_FOR_EACH_PROCESSOR
#define VOLLEY_FOR_EACH_PROCESSOR
#endif

namespace volley::jacobi {

namespace {

template <class Real>
constexpr std::int64_t line_points = cache_line_bytes / static_cast<std::int64_t>(sizeof(Real));

// Points that are swept at once while the same ones of the second row below are fetched. Chunks begin at multiples of
// it.
template <class Real>
constexpr std::int64_t chunk_points = 2048 / static_cast<std::int64_t>(sizeof(Real));

// Copies points [begin, end) of rows that begin cache lines. Whole lines go around the caches: they are not read from
// memory before.
template <class Real>
[[gnu::always_inline]] inline void copy_around_caches(const Real* row, Real* to, std::int64_t begin, std::int64_t end) {
  std::int64_t i = begin;
#if defined(__SSE2__)
  constexpr std::int64_t line = line_points<Real>;
  const std::int64_t first_line = std::min((begin + line - 1) / line * line, end);
  std::copy(row + i, row + first_line, to + i);
  for (i = first_line; i + line <= end; i += line) {
    const auto* from = reinterpret_cast<const __m128i*>(row + i);
    for (int part = 0; part < 4; ++part) _mm_stream_si128(reinterpret_cast<__m128i*>(to + i) + part, from[part]);
  }
#endif
  std::copy(row + i, row + end, to + i);
}

// Stores around the caches are ordered with nothing else: other threads read them behind this.
[[gnu::always_inline]] inline void order_stores() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

template <class Real>
void copy_points(const Real* from, Real* to, std::int64_t points, bool around_caches) {
  if (!around_caches) {
    std::copy_n(from, points, to);
    return;
  }
  copy_around_caches(from, to, 0, points);
  order_stores();
}

// Inlined into every version below, or it would be compiled for the default processor only.
template <class Real>
[[gnu::always_inline]] inline Real sweep_rows(const Plane<Real>& from, const Plane<Real>& to, const Region& region,
                                              bool around_caches) {
  alignas(cache_line_bytes) Real chunk[chunk_points<Real>];
  Real largest = 0;
  Real sum = 0;  // not finite if one of the changes is not: a NaN is not larger than anything
  for (std::int64_t y = region.y0; y < region.y1; ++y) {
    for (std::int64_t x0 = region.x0; x0 < region.x1;) {
      const std::int64_t base = x0 / chunk_points<Real> * chunk_points<Real>;
      const std::int64_t begin = x0 - base;
      const std::int64_t end = std::min(chunk_points<Real>, region.x1 - base);
      const Real* const above = from.row(y - 1) + base;
      const Real* const here = from.row(y) + base;
      const Real* const below = from.row(y + 1) + base;
      const Real* const ahead = from.row(std::min(y + 2, region.y1)) + base;
      Real* const __restrict out = around_caches ? chunk : to.row(y) + base;
      for (std::int64_t i = begin; i < end; i += line_points<Real>) __builtin_prefetch(ahead + i);
#pragma omp simd reduction(max : largest) reduction(+ : sum)
      for (std::int64_t i = begin; i < end; ++i) {
        const Real value = Real(0.25) * ((here[i - 1] + here[i + 1]) + (above[i] + below[i]));
        const Real change = std::fabs(value - here[i]);
        out[i] = value;
        largest = change > largest ? change : largest;
        sum += change;
      }
      if (around_caches) copy_around_caches(chunk, to.row(y) + base, begin, end);
      x0 = base + end;
    }
  }
  if (around_caches) order_stores();
  return std::isfinite(sum) ? largest : std::numeric_limits<Real>::quiet_NaN();
}

}  // namespace

VOLLEY_FOR_EACH_PROCESSOR double sweep(const Plane<double>& from, const Plane<double>& to, const Region& region,
                                       bool around_caches) {
  return sweep_rows(from, to, region, around_caches);
}

VOLLEY_FOR_EACH_PROCESSOR float sweep(const Plane<float>& from, const Plane<float>& to, const Region& region,
                                      bool around_caches) {
  return sweep_rows(from, to, region, around_caches);
}

void copy_row(const double* from, double* to, std::int64_t points, bool around_caches) {
  copy_points(from, to, points, around_caches);
}

void copy_row(const float* from, float* to, std::int64_t points, bool around_caches) {
  copy_points(from, to, points, around_caches);
}

}  // namespace volley::jacobi
