// How many blocks and threads move a message.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/round_up.hpp"

namespace volley::device {

constexpr unsigned warp_threads = 32;
constexpr unsigned max_threads = 1024;

constexpr std::size_t vector_bytes = 16;

// The smallest part of a long message for a block: one vector of 16 bytes for each of 256 threads.
constexpr std::size_t min_share_bytes = 4096;

struct Shape {
  unsigned blocks = 1;
  unsigned threads = warp_threads;
};

// Threads of a block that make so many accesses, one each if a block can have as many: whole warps.
constexpr unsigned threads_for(std::size_t accesses) {
  return static_cast<unsigned>(std::clamp<std::size_t>(round_up(accesses, warp_threads), warp_threads, max_threads));
}

// Uses all blocks before more than 256 threads in each, and all threads before more than one vector for each: with more
// multiprocessors and threads a message of medium length takes less time. A long message is limited by the link in any
// shape.
constexpr Shape long_shape(std::size_t bytes, unsigned max_blocks) {
  const auto blocks = std::clamp<std::size_t>(round_up(bytes, min_share_bytes) / min_share_bytes, 1, max_blocks);
  const unsigned threads = threads_for(round_up(bytes / blocks, vector_bytes) / vector_bytes);
  // At least a warp: one of its lanes polls each block's word.
  return {static_cast<unsigned>(blocks), std::max(threads, warp_threads)};
}

}  // namespace volley::device
