// Writes and checks the contents of messages on the device; see host/pattern.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "host/pattern.hpp"

namespace volley::gpu::kernels {

enum class Fill { pattern, poison, guard };

constexpr unsigned pattern_threads = 256;
constexpr unsigned max_pattern_blocks = 1024;
constexpr std::size_t word_bytes = sizeof(std::uint64_t);

inline unsigned pattern_blocks(std::size_t bytes) {
  const std::size_t threads = bytes / word_bytes + 1;
  return static_cast<unsigned>(
      std::clamp<std::size_t>((threads + pattern_threads - 1) / pattern_threads, 1, max_pattern_blocks));
}

__host__ __device__ inline std::uint64_t word_of(Fill fill, const Contents& contents, std::uint64_t word) {
  switch (fill) {
    case Fill::pattern: return contents.word(word);
    case Fill::poison: return ~contents.word(word);
    case Fill::guard: return guard_word(contents.seed, word);
  }
  return 0;
}

// Byte `byte` of a sequence of words; `word` is the word that contains it.
__host__ __device__ inline std::uint8_t byte_of(std::uint64_t word, std::uint64_t byte) {
  return static_cast<std::uint8_t>(word >> (8 * (byte % word_bytes)));
}

// If the start is aligned, stores whole words, then single bytes; otherwise only single bytes.
static __global__ void write_contents(std::uint8_t* at, std::uint64_t bytes, Contents contents, Fill fill) {
  const std::uint64_t thread = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  const std::uint64_t threads = gridDim.x * std::uint64_t{blockDim.x};
  const bool aligned = reinterpret_cast<std::uintptr_t>(at) % word_bytes == 0;
  const std::uint64_t words = aligned ? bytes / word_bytes : 0;
  for (std::uint64_t i = thread; i < words; i += threads) {
    reinterpret_cast<std::uint64_t*>(at)[i] = word_of(fill, contents, i);
  }
  for (std::uint64_t i = words * word_bytes + thread; i < bytes; i += threads) {
    at[i] = byte_of(word_of(fill, contents, i / word_bytes), i);
  }
}

// The lowest wrong offset (all bits set: none) and the number of wrong bytes.
struct WrongBytes {
  unsigned long long first;
  unsigned long long count;

  __device__ void add(std::uint64_t offset, unsigned wrong) {
    atomicMin(&first, static_cast<unsigned long long>(offset));
    atomicAdd(&count, static_cast<unsigned long long>(wrong));
  }
};

static __global__ void check_contents(const std::uint8_t* at, std::uint64_t bytes, Contents contents, Fill fill,
                                      WrongBytes* found) {
  const std::uint64_t thread = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  const std::uint64_t threads = gridDim.x * std::uint64_t{blockDim.x};
  const bool aligned = reinterpret_cast<std::uintptr_t>(at) % word_bytes == 0;
  const std::uint64_t words = aligned ? bytes / word_bytes : 0;
  for (std::uint64_t i = thread; i < words; i += threads) {
    const std::uint64_t difference = reinterpret_cast<const std::uint64_t*>(at)[i] ^ word_of(fill, contents, i);
    if (difference == 0) continue;
    unsigned wrong = 0;
    for (unsigned byte = 0; byte < word_bytes; ++byte) wrong += byte_of(difference, byte) != 0;
    found->add(i * word_bytes + (__ffsll(static_cast<long long>(difference)) - 1) / 8, wrong);
  }
  for (std::uint64_t i = words * word_bytes + thread; i < bytes; i += threads) {
    if (at[i] != byte_of(word_of(fill, contents, i / word_bytes), i)) found->add(i, 1);
  }
}

}  // namespace volley::gpu::kernels
