#include "messages/pattern.hpp"

#include <algorithm>
#include <cstring>

namespace volley {

static_assert(std::endian::native == std::endian::little, "messages are laid out in little-endian words");

namespace {

constexpr std::size_t word_bytes = sizeof(std::uint64_t);

constexpr std::size_t words_of_a_line = 64 / word_bytes;
// Processors stop prefetching at the end of a page; a prefetch one page ahead makes this up to twice as fast.
constexpr std::size_t ahead_bytes = 4096;
enum Access { read = 0, rewrite = 1 };  // as __builtin_prefetch numbers them

// Calls visit(i, word i) for `count` words that lie at `place`.
template <Access access, class Visit>
void each_word(const PatternWords& words, const std::byte* place, std::size_t count, Visit visit) {
  std::uint64_t sum = words.first;
  std::size_t i = 0;
  while (i + words_of_a_line <= count) {
    __builtin_prefetch(place + i * word_bytes + ahead_bytes, access);
    for (std::size_t j = 0; j < words_of_a_line; ++j, ++i, sum += pattern_step) visit(i, sum ^ words.mask);
  }
  for (; i < count; ++i, sum += pattern_step) visit(i, sum ^ words.mask);
}

template <Access, class Visit>
void each_word(const SpacedWords& words, const std::byte*, std::size_t count, Visit visit) {
  std::uint64_t sum = words.all.first;
  for (std::size_t i = 0, within = 0; i < count; ++i, sum += pattern_step) {
    visit(i, within + word_bytes <= words.message_bytes ? sum ^ words.all.mask : words.word(i));
    within = within + word_bytes < words.stride ? within + word_bytes : 0;
  }
}

template <Access, class Visit>
void each_word(const Elements& elements, const std::byte*, std::size_t count, Visit visit) {
  int rank = elements.rank;
  std::uint64_t position = elements.position;
  std::uint64_t in_piece = 0;
  std::uint64_t piece = elements.piece;
  std::uint64_t other_piece = elements.odd_piece;
  const auto next = [&] {
    const std::uint32_t element = elements.of.element(rank, position + in_piece) ^ elements.mask;
    if (++in_piece == piece) {
      in_piece = 0;
      rank += elements.rank_step;
      position += elements.position_step;
      std::swap(piece, other_piece);
    }
    return std::uint64_t{element};
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t low = next();
    visit(i, low | next() << 32);
  }
}

// Whether any of `count` whole words is wrong. Without an early exit the loop has no branch that depends on data.
template <class Generator>
bool differ(const std::byte* at, std::size_t count, const Generator& words) {
  std::uint64_t difference = 0;
  each_word<read>(words, at, count, [&](std::size_t i, std::uint64_t word) {
    std::uint64_t actual = 0;
    std::memcpy(&actual, at + i * word_bytes, word_bytes);
    difference |= actual ^ word;
  });
  return difference != 0;
}

template <class Generator>
WrongBytes compare(const std::byte* at, std::size_t bytes, const Generator& words) {
  WrongBytes wrong;
  const std::size_t whole = bytes / word_bytes;
  for (std::size_t i = differ(at, whole, words) ? 0 : whole; i * word_bytes < bytes; ++i) {
    const std::size_t here = std::min(word_bytes, bytes - i * word_bytes);
    const std::uint64_t expected = words.word(i);
    std::uint64_t actual = expected;
    std::memcpy(&actual, at + i * word_bytes, here);
    for (std::uint64_t apart = actual ^ expected, b = 0; apart != 0; apart >>= 8, ++b) {
      if ((apart & 0xFF) == 0) continue;
      wrong.first = std::min<unsigned long long>(wrong.first, i * word_bytes + b);
      ++wrong.count;
    }
  }
  return wrong;
}

}  // namespace

std::uint64_t seed_of(const Stamp& stamp) {
  constexpr std::uint64_t repetitions = 128;  // with the same base: the tag has 7 bits for them
  const std::uint64_t both_ways =
      mixed(mixed(stamp.size_bytes + pattern_step) + stamp.repetition / repetitions + (stamp.direction / 2 << 32));
  return base_of(both_ways) | (stamp.repetition % repetitions) << 1 | (stamp.direction & 1);
}

std::string difference(const std::string& data, const std::string& sent, const Mismatch& mismatch) {
  const std::string of = mismatch.messages > 1 ? " of " + std::to_string(mismatch.messages) + " messages" : "";
  return data + " differs from what " + sent + " in " + std::to_string(mismatch.wrong_bytes) +
         (mismatch.wrong_bytes == 1 ? " byte" : " bytes") + of + ", first at offset " +
         std::to_string(mismatch.offset_bytes);
}

void write_words(std::byte* at, std::size_t bytes, const Words& words) {
  std::visit(
      [&](const auto& generator) {
        const std::size_t count = bytes / word_bytes;
        each_word<rewrite>(generator, at, count, [at](std::size_t i, std::uint64_t word) {
          std::memcpy(at + i * word_bytes, &word, word_bytes);
        });
        const std::uint64_t last = generator.word(count);
        std::memcpy(at + count * word_bytes, &last, bytes % word_bytes);
      },
      words);
}

WrongBytes compare_words(const std::byte* at, std::size_t bytes, const Words& words) {
  return std::visit([&](const auto& generator) { return compare(at, bytes, generator); }, words);
}

void compare_bytes(const std::byte* found, const std::byte* expected, std::size_t bytes, std::size_t offset,
                   Mismatch& wrong) {
  for (std::size_t i = std::memcmp(found, expected, bytes) == 0 ? bytes : 0; i < bytes; ++i) {
    if (found[i] == expected[i] || wrong.wrong_bytes++ > 0) continue;
    wrong.offset_bytes = static_cast<std::int64_t>(offset + i);
    wrong.expected = static_cast<std::uint8_t>(expected[i]);
    wrong.found = static_cast<std::uint8_t>(found[i]);
  }
}

}  // namespace volley
