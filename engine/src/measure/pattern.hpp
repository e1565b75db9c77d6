// What a message contains while it is verified, and the poison that its place holds before it arrives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace volley {

// Bytes before and behind a message that no transport may touch.
inline constexpr std::size_t guard_bytes = 64;

// One verified message: which point, which way, which repetition. Different messages have different contents.
struct Stamp {
  std::uint64_t size_bytes;
  std::uint64_t direction;   // 0: sent by the first rank, 1: by the second
  std::uint64_t repetition;
};

// The seed of a message's contents: SplitMix64's finaliser (Steele, Lea, Flood 2014) over size and repetition; the
// lowest bit is the direction.
[[nodiscard]] std::uint64_t seed_of(const Stamp& stamp);

// Word w of the message (8 bytes, little endian): an arithmetic sequence with the golden-ratio step, so that every
// word of a message differs from every other one and a message that arrives shifted is as wrong as one that does not.
// The two directions of a repetition differ in every byte: a rank that gets back what it sent is always caught.
// The same formula runs on the GPU.
inline constexpr std::uint64_t pattern_step = 0x9E3779B97F4A7C15ULL;
#if defined(__CUDACC__)
__host__ __device__
#endif
inline constexpr std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t word) {
  const std::uint64_t direction = seed & 1;
  return (seed - direction + word * pattern_step) ^ (direction * 0xAAAAAAAAAAAAAAAAULL);
}

// Poison is the complement of what is expected, so that a byte that never arrived is always wrong.
// Guard words follow the same sequence from a seed of their own.
#if defined(__CUDACC__)
__host__ __device__
#endif
inline constexpr std::uint64_t guard_word(std::uint64_t seed, std::uint64_t word) {
  return ~seed ^ (word * pattern_step);
}

// The first wrong byte, and how many are wrong in all.
struct Mismatch {
  int rank = 0;                    // world rank whose receive buffer is wrong; set by the sampler
  std::int64_t offset_bytes = 0;   // from the start of the message; negative or >= size: a guard byte
  std::uint8_t expected = 0;
  std::uint8_t found = 0;
  std::uint64_t wrong_bytes = 0;
};

namespace host_pattern {

// Fills `bytes` bytes at `message` with the pattern of `seed`.
void fill(std::byte* message, std::size_t bytes, std::uint64_t seed);
// Poisons `bytes` bytes at `message` against `seed` and writes guards around them.
void poison(std::byte* message, std::size_t bytes, std::uint64_t seed);
// Compares every byte of the message and of its guards.
[[nodiscard]] std::optional<Mismatch> check(const std::byte* message, std::size_t bytes, std::uint64_t seed);

}  // namespace host_pattern

}  // namespace volley
