// Compiled with -ffp-contract=off: if a multiplication and an addition were fused into one rounding, the result would
// depend on the processor. With -fopenmp-simd the compiler may reorder the two reductions; their order changes nothing.
#include "jacobi/grid.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#if __SSE2__  // x86, which has stores that go around the caches
#include <emmintrin.h>
#endif

namespace volley::jacobi {

#if __SSE2__
void streaming_copy(const void* from, void* to, std::size_t bytes) {
  constexpr auto line = static_cast<std::size_t>(cache_line_bytes);
  const auto* const source = static_cast<const std::byte*>(from);
  auto* const target = static_cast<std::byte*>(to);
  const std::size_t in_line = reinterpret_cast<std::uintptr_t>(target) % line;
  const std::size_t begin = std::min((line - in_line) % line, bytes);  // of the whole lines
  const std::size_t end = begin + (bytes - begin) / line * line;
  std::memcpy(target, source, begin);
  for (std::size_t i = begin; i < end; i += sizeof(__m128i)) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(target + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i)));
  }
  std::memcpy(target + end, source + end, bytes - end);
}

void order_streaming_stores() { _mm_sfence(); }
#else
void streaming_copy(const void* from, void* to, std::size_t bytes) { std::memcpy(to, from, bytes); }

void order_streaming_stores() {}
#endif

namespace {

template <class Real>
constexpr std::int64_t line_points = cache_line_bytes / static_cast<std::int64_t>(sizeof(Real));

// Points that are swept at once while those of the second row below are fetched; chunks begin at multiples of it.
template <class Real>
constexpr std::int64_t chunk_points = 2048 / static_cast<std::int64_t>(sizeof(Real));

// Inlined into every version below; otherwise it would be compiled for the default processor only.
template <class Real>
[[gnu::always_inline]] inline Real sweep_rows(const Plane<Real>& from, const Plane<Real>& to, const Region& region,
                                              bool around_caches) {
  alignas(cache_line_bytes) Real chunk[chunk_points<Real>];
  Real largest = 0;
  Real sum = 0;  // not finite if one of the changes is not finite; `largest` would miss a NaN
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
      const auto bytes = static_cast<std::size_t>(end - begin) * sizeof(Real);
      if (around_caches) streaming_copy(chunk + begin, to.row(y) + base + begin, bytes);
      x0 = base + end;
    }
  }
  if (around_caches) order_streaming_stores();
  return std::isfinite(sum) ? largest : std::numeric_limits<Real>::quiet_NaN();
}

}  // namespace

// CMake defines VOLLEY_FOR_EACH_PROCESSOR. Where the compiler can, it makes a version for each of several instruction
// sets, and the version for this processor is called. With 64 bytes at once a field in the third-level cache took half
// as long as with 16 (AMD EPYC, Zen 5).
VOLLEY_FOR_EACH_PROCESSOR double sweep(const Plane<double>& from, const Plane<double>& to, const Region& region,
                                       bool around_caches) {
  return sweep_rows(from, to, region, around_caches);
}

VOLLEY_FOR_EACH_PROCESSOR float sweep(const Plane<float>& from, const Plane<float>& to, const Region& region,
                                      bool around_caches) {
  return sweep_rows(from, to, region, around_caches);
}

}  // namespace volley::jacobi
