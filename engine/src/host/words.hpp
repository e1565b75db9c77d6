// The words that verified memory must have: of messages (host/pattern.hpp), and of collectives, whose results tell
// which rank's contribution is missing. The GPU computes them by the same functions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "host/pattern.hpp"

namespace volley {

inline constexpr std::size_t element_bytes = 4;

// The elements that each rank contributes, by its rank and their position in its send buffer.
//
// Where nothing is reduced, an element is the upper half of a 64-bit sequence over positions and ranks with two
// irrational steps: elements differ by rank and by position.
//
// Where elements are summed, rank r of n contributes n + 1 + r + c(p) at position p, with 0 <= c(p) < 2^bits. No
// contribution is 0, those of one position all differ by less than the smallest of them, and so the difference between
// the sum that was expected and the one that was found is the contribution that is missing or counted twice. c(p)
// differs between all positions of an aligned run of 2^bits, and between any two that are a power of two apart, below
// 2^(4 bits): blocks in each other's place are wrong in every element. All are whole numbers, and `bits` is so small
// that the sum of all is below 2^24, or 2^31 of integers: exact in every order of summation.
struct Contributions {
  bool reduces = false;
  bool floats = false;
  std::uint32_t ranks = 1;
  std::uint32_t bits = 0;
  std::uint64_t start = 0;

  static constexpr std::uint32_t min_bits = 9;  // messages of one fill begin fewer elements apart than 2^9
  static_assert(last_messages_per_fill * message_step_bytes / element_bytes < std::uint64_t{1} << min_bits);
  static constexpr std::uint64_t rank_step = 0xD1B54A32D192ED03ULL;
  static constexpr int sum = -1;  // in place of a rank: of all ranks

  [[nodiscard]] constexpr std::uint32_t varying(std::uint64_t position) const {
    const std::uint64_t all =
        start + position * pattern_step + (position >> bits) + (position >> 2 * bits) + (position >> 3 * bits);
    return static_cast<std::uint32_t>(all & ((std::uint64_t{1} << bits) - 1));
  }
  // The whole number that is contributed; that of `sum` is what all contribute.
  [[nodiscard]] constexpr std::uint32_t number(int rank, std::uint64_t position) const {
    if (rank != sum) return ranks + 1 + static_cast<std::uint32_t>(rank) + varying(position);
    return ranks * (ranks + 1) + ranks * (ranks - 1) / 2 + ranks * varying(position);
  }
  // The element as it lies in memory.
  [[nodiscard]] constexpr std::uint32_t element(int rank, std::uint64_t position) const {
    if (!reduces) {
      const std::uint64_t all = start + position * pattern_step + static_cast<std::uint64_t>(rank + 1) * rank_step;
      return static_cast<std::uint32_t>(all >> 32);
    }
    const std::uint32_t whole = number(rank, position);
    if (!floats) return whole;
    return std::bit_cast<std::uint32_t>(static_cast<float>(whole));  // exact
  }
};

// Elements of a buffer: pieces of one length, which hold the elements of following ranks from the same position on.
struct Elements {
  Contributions of;
  std::uint64_t piece = 1;     // elements
  std::uint64_t position = 0;  // of the first element of each piece
  int rank = 0;                // of the first piece; Contributions::sum: what all contribute
  std::uint64_t count = 0;
  std::uint32_t mask = 0;  // of every element

  [[nodiscard]] constexpr std::uint32_t at(std::uint64_t i) const {
    const std::uint64_t number = count == piece ? 0 : i / piece;
    return of.element(rank + static_cast<int>(number), position + i - number * piece) ^ mask;
  }
  [[nodiscard]] constexpr std::uint64_t word(std::uint64_t i) const {
    return at(2 * i) | std::uint64_t{at(2 * i + 1)} << 32;
  }
};

[[nodiscard]] constexpr Elements opposite(Elements elements) {
  elements.mask = ~elements.mask;
  return elements;
}

// 8 bytes each, little endian; where the bytes end within a word, its first bytes.
using Words = std::variant<PatternWords, Elements>;

[[nodiscard]] constexpr std::uint8_t byte_of(std::uint64_t word, std::uint64_t byte) {
  return static_cast<std::uint8_t>(word >> (8 * (byte % sizeof word)));
}

// Of some bytes the offset of the first that is wrong, and the number of wrong ones.
struct WrongBytes {
  unsigned long long first = ~0ULL;
  unsigned long long count = 0;
};

// In host memory.
void write_words(std::byte* at, std::size_t bytes, const Words& words);
[[nodiscard]] WrongBytes compare_words(const std::byte* at, std::size_t bytes, const Words& words);

}  // namespace volley
