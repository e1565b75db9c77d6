// Writes and checks the contents of messages on the device; see host/pattern.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "host/words.hpp"

namespace volley::gpu::kernels {

constexpr unsigned pattern_threads = 256;
constexpr unsigned max_pattern_blocks = 1024;
constexpr std::size_t word_bytes = sizeof(std::uint64_t);

inline unsigned pattern_blocks(std::size_t bytes) {
  const std::size_t threads = bytes / word_bytes + 1;
  return static_cast<unsigned>(
      std::clamp<std::size_t>((threads + pattern_threads - 1) / pattern_threads, 1, max_pattern_blocks));
}

// If the start is aligned, stores whole words, then single bytes; otherwise only single bytes.
template <class Generator>
__global__ void write(std::uint8_t* at, std::uint64_t bytes, Generator generator) {
  const std::uint64_t thread = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  const std::uint64_t threads = gridDim.x * std::uint64_t{blockDim.x};
  const bool aligned = reinterpret_cast<std::uintptr_t>(at) % word_bytes == 0;
  const std::uint64_t words = aligned ? bytes / word_bytes : 0;
  for (std::uint64_t i = thread; i < words; i += threads) {
    reinterpret_cast<std::uint64_t*>(at)[i] = generator.word(i);
  }
  for (std::uint64_t i = words * word_bytes + thread; i < bytes; i += threads) {
    at[i] = byte_of(generator.word(i / word_bytes), i);
  }
}

__device__ inline void add(WrongBytes& found, std::uint64_t offset, unsigned wrong) {
  atomicMin(&found.first, static_cast<unsigned long long>(offset));
  atomicAdd(&found.count, static_cast<unsigned long long>(wrong));
}

template <class Generator>
__global__ void compare(const std::uint8_t* at, std::uint64_t bytes, Generator generator, WrongBytes* found) {
  const std::uint64_t thread = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  const std::uint64_t threads = gridDim.x * std::uint64_t{blockDim.x};
  const bool aligned = reinterpret_cast<std::uintptr_t>(at) % word_bytes == 0;
  const std::uint64_t words = aligned ? bytes / word_bytes : 0;
  for (std::uint64_t i = thread; i < words; i += threads) {
    const std::uint64_t difference = reinterpret_cast<const std::uint64_t*>(at)[i] ^ generator.word(i);
    if (difference == 0) continue;
    unsigned wrong = 0;
    for (unsigned byte = 0; byte < word_bytes; ++byte) wrong += byte_of(difference, byte) != 0;
    add(*found, i * word_bytes + (__ffsll(static_cast<long long>(difference)) - 1) / 8, wrong);
  }
  for (std::uint64_t i = words * word_bytes + thread; i < bytes; i += threads) {
    if (at[i] != byte_of(generator.word(i / word_bytes), i)) add(*found, i, 1);
  }
}

}  // namespace volley::gpu::kernels
