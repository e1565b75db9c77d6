#include "host/pattern.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace volley {

static_assert(std::endian::native == std::endian::little, "messages are laid out in little-endian words");

namespace {

constexpr std::size_t word_bytes = sizeof(std::uint64_t);

constexpr std::size_t words_of_a_line = 64 / word_bytes;
// Processors stop prefetching at the end of a page; a prefetch one page ahead makes this up to twice as fast.
constexpr std::size_t ahead_bytes = 4096;
enum Access { read = 0, rewrite = 1 };  // as __builtin_prefetch numbers them

// The words (first + i * pattern_step) ^ mask. Contents, poison and guards have this form.
struct Words {
  std::uint64_t first;
  std::uint64_t mask;
  [[nodiscard]] std::uint64_t at(std::uint64_t i) const { return (first + i * pattern_step) ^ mask; }

  // Calls visit(i, at(i)) for `count` words that lie at `place`.
  template <Access access, class Visit>
  void each(const std::byte* place, std::size_t count, Visit visit) const {
    std::uint64_t sum = first;
    std::size_t i = 0;
    while (i + words_of_a_line <= count) {
      __builtin_prefetch(place + i * word_bytes + ahead_bytes, access);
      for (std::size_t j = 0; j < words_of_a_line; ++j, ++i, sum += pattern_step) visit(i, sum ^ mask);
    }
    for (; i < count; ++i, sum += pattern_step) visit(i, sum ^ mask);
  }
};

Words words_of(const Contents& contents) {
  const std::uint64_t base = base_of(contents.seed);
  return {base + contents.first_word * pattern_step, pattern_word(contents.seed, 0) ^ base};
}
Words opposite(const Contents& contents) { return {words_of(contents).first, ~words_of(contents).mask}; }
Words guards(std::uint64_t seed) { return {0, guard_word(seed, 0)}; }

// Writes whole words, then the first bytes of one more word.
void write(std::byte* at, std::size_t bytes, const Words& words) {
  const std::size_t count = bytes / word_bytes;
  words.each<rewrite>(at, count,
                      [at](std::size_t i, std::uint64_t word) { std::memcpy(at + i * word_bytes, &word, word_bytes); });
  const std::uint64_t last = words.at(count);
  std::memcpy(at + count * word_bytes, &last, bytes % word_bytes);
}

// Whether any of `count` whole words is wrong. Without an early exit the loop has no branch that depends on data.
bool differ(const std::byte* at, std::size_t count, const Words& words) {
  std::uint64_t difference = 0;
  words.each<read>(at, count, [&](std::size_t i, std::uint64_t word) {
    std::uint64_t actual = 0;
    std::memcpy(&actual, at + i * word_bytes, word_bytes);
    difference |= actual ^ word;
  });
  return difference != 0;
}

// Adds what is wrong in [at, at + bytes) to `found`; `origin` is the offset of `at` from the message's start.
void compare(const std::byte* at, std::size_t bytes, const Words& words, std::int64_t origin,
             std::optional<Mismatch>& found) {
  if (bytes % word_bytes == 0 && !differ(at, bytes / word_bytes, words)) return;
  for (std::size_t i = 0; i * word_bytes < bytes; ++i) {
    const std::size_t here = std::min(word_bytes, bytes - i * word_bytes);
    const std::uint64_t expected = words.at(i);
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

}  // namespace

std::uint64_t seed_of(const Stamp& stamp) {
  constexpr std::uint64_t repetitions = 128;  // with the same base: the tag has 7 bits for them
  const std::uint64_t both_ways =
      mixed(mixed(stamp.size_bytes + pattern_step) + stamp.repetition / repetitions + (stamp.direction / 2 << 32));
  return base_of(both_ways) | (stamp.repetition % repetitions) << 1 | (stamp.direction & 1);
}

std::string difference(const std::string& data, const std::string& sent, const Mismatch& mismatch) {
  return data + " differs from what " + sent + " in " + std::to_string(mismatch.wrong_bytes) +
         (mismatch.wrong_bytes == 1 ? " byte" : " bytes") + ", first at offset " +
         std::to_string(mismatch.offset_bytes);
}

namespace host_pattern {

void fill(std::byte* message, std::size_t bytes, const Contents& contents) {
  write(message, bytes, words_of(contents));
}

void poison(std::byte* message, std::size_t bytes, const Contents& expected) {
  write(message - guard_bytes, guard_bytes, guards(expected.seed));
  write(message, bytes, opposite(expected));
  write(message + bytes, guard_bytes, guards(expected.seed));
}

std::optional<Mismatch> check(const std::byte* message, std::size_t bytes, const Contents& expected) {
  std::optional<Mismatch> found;
  compare(message - guard_bytes, guard_bytes, guards(expected.seed), -static_cast<std::int64_t>(guard_bytes), found);
  const std::size_t whole = bytes - bytes % word_bytes;
  const Words words = words_of(expected);
  compare(message, whole, words, 0, found);
  compare(message + whole, bytes - whole, {words.first + whole / word_bytes * pattern_step, words.mask},
          static_cast<std::int64_t>(whole), found);
  compare(message + bytes, guard_bytes, guards(expected.seed), static_cast<std::int64_t>(bytes), found);
  return found;
}

}  // namespace host_pattern

}  // namespace volley
