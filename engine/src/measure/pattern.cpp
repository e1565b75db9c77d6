#include "pattern.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace volley {

static_assert(std::endian::native == std::endian::little, "messages are laid out in little-endian words");

namespace {

constexpr std::size_t word_bytes = sizeof(std::uint64_t);

std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

// Whole words first, then the bytes of one more word.
template <class Word>
void write(std::byte* at, std::size_t bytes, Word word) {
  const std::size_t words = bytes / word_bytes;
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t value = word(i);
    std::memcpy(at + i * word_bytes, &value, word_bytes);
  }
  const std::uint64_t last = word(words);
  std::memcpy(at + words * word_bytes, &last, bytes % word_bytes);
}

// Adds what is wrong in [at, at + bytes) to `found`; `origin` is the offset of `at` from the message's start.
template <class Word>
void compare(const std::byte* at, std::size_t bytes, Word word, std::int64_t origin, std::optional<Mismatch>& found) {
  for (std::size_t i = 0; i * word_bytes < bytes; ++i) {
    const std::size_t here = std::min(word_bytes, bytes - i * word_bytes);
    std::uint64_t expected = word(i);
    std::uint64_t actual = expected;
    std::memcpy(&actual, at + i * word_bytes, here);
    if (actual == expected) continue;
    for (std::size_t b = 0; b < here; ++b) {
      const auto want = static_cast<std::uint8_t>(expected >> (8 * b));
      const auto have = static_cast<std::uint8_t>(actual >> (8 * b));
      if (want == have) continue;
      if (!found) found = Mismatch{0, origin + static_cast<std::int64_t>(i * word_bytes + b), want, have, 0};
      ++found->wrong_bytes;
    }
  }
}

// Is any whole word wrong? Written for the vectoriser: no early exit, one accumulated difference.
bool words_differ(const std::byte* at, std::size_t words, std::uint64_t seed) {
  std::uint64_t difference = 0;
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t actual = 0;
    std::memcpy(&actual, at + i * word_bytes, word_bytes);
    difference |= actual ^ pattern_word(seed, i);
  }
  return difference != 0;
}

}  // namespace

std::uint64_t seed_of(const Stamp& stamp) {
  const std::uint64_t both_ways = mixed(mixed(stamp.size_bytes + pattern_step) + stamp.repetition);
  return (both_ways & ~std::uint64_t{1}) | (stamp.direction & 1);
}

namespace host_pattern {

void fill(std::byte* message, std::size_t bytes, std::uint64_t seed) {
  write(message, bytes, [seed](std::uint64_t i) { return pattern_word(seed, i); });
}

void poison(std::byte* message, std::size_t bytes, std::uint64_t seed) {
  const auto guard = [seed](std::uint64_t i) { return guard_word(seed, i); };
  write(message - guard_bytes, guard_bytes, guard);
  write(message, bytes, [seed](std::uint64_t i) { return ~pattern_word(seed, i); });
  write(message + bytes, guard_bytes, guard);
}

std::optional<Mismatch> check(const std::byte* message, std::size_t bytes, std::uint64_t seed) {
  const auto guard = [seed](std::uint64_t i) { return guard_word(seed, i); };
  std::optional<Mismatch> found;
  compare(message - guard_bytes, guard_bytes, guard, -static_cast<std::int64_t>(guard_bytes), found);
  const std::size_t words = bytes / word_bytes;
  const std::size_t whole = words * word_bytes;
  if (words_differ(message, words, seed)) {
    compare(message, whole, [seed](std::uint64_t i) { return pattern_word(seed, i); }, 0, found);
  }
  compare(message + whole, bytes - whole, [&](std::uint64_t) { return pattern_word(seed, words); },
          static_cast<std::int64_t>(whole), found);
  compare(message + bytes, guard_bytes, guard, static_cast<std::int64_t>(bytes), found);
  return found;
}

}  // namespace host_pattern

}  // namespace volley
