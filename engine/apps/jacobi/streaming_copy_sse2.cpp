// For x86, whose instruction set SSE2 has stores that go around the caches.
#include <emmintrin.h>

#include <algorithm>
#include <cstring>

#include "jacobi/sweep.hpp"

namespace volley::jacobi {

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

}  // namespace volley::jacobi
