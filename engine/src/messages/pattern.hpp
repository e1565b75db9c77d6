// The words that verified memory must have: of messages, of the poison before a message arrives and of the guards
// around it, and of collectives, whose results tell which rank's contribution is missing.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace volley {

// No transport may write to this many bytes before and after a message.
inline constexpr std::size_t guard_bytes = 64;

// Identifies a verified message. Different messages have different contents.
struct Stamp {
  std::uint64_t size_bytes;
  std::uint64_t direction;  // 0: sent by the first rank, 1: by the second; of a further pair 2 and 3, and so on
  std::uint64_t repetition;
};

// The seed of a message's contents. Its lowest byte is the tag: the repetition modulo 128, and the direction. The other
// bytes are the base: SplitMix64's finaliser (Steele, Lea, Flood 2014) over size, pair, and repetition / 128.
[[nodiscard]] std::uint64_t seed_of(const Stamp& stamp);

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit of the value.
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

[[nodiscard]] constexpr std::uint64_t tag_of(std::uint64_t seed) { return seed & 0xFF; }
[[nodiscard]] constexpr std::uint64_t base_of(std::uint64_t seed) { return seed & ~std::uint64_t{0xFF}; }

// Word w of the message (8 bytes, little endian). The words are an arithmetic sequence with the golden-ratio step: all
// words of a message differ, so that a shifted message is wrong everywhere. The tag changes every byte of a word:
// messages with the same base and different tags differ in every byte, so that a rank that receives its own message
// notices. The GPU uses the same function.
inline constexpr std::uint64_t pattern_step = 0x9E3779B97F4A7C15ULL;
struct PatternWords {
  std::uint64_t first;
  std::uint64_t mask;
  [[nodiscard]] constexpr std::uint64_t word(std::uint64_t i) const { return (first + i * pattern_step) ^ mask; }
};

// The contents of a message: the words of a seed, from `first_word` on.
struct Contents {
  // NOLINTNEXTLINE(google-explicit-constructor): a seed alone means its words from the first on
  constexpr Contents(std::uint64_t of, std::uint64_t from = 0) : seed(of), first_word(from) {}
  [[nodiscard]] constexpr PatternWords words() const {
    return {base_of(seed) + first_word * pattern_step, tag_of(seed) * 0x0101010101010101ULL};
  }
  std::uint64_t seed;
  std::uint64_t first_word;
};

// Poison is the complement of the expected contents, so that a byte that does not arrive is always wrong.
[[nodiscard]] constexpr PatternWords opposite(const PatternWords& words) { return {words.first, ~words.mask}; }
// Guard words are the same sequence, from the complement of the base, without the tag.
[[nodiscard]] constexpr PatternWords guard_words(std::uint64_t seed) { return {0, ~base_of(seed)}; }

// One fill of a send buffer contains several messages: message m begins m * message_step_words words after the first
// one. A batch sends message 0, except that its last message, which is checked, has the next number in each sample, and
// after the last number the first again. The first bytes of two messages of a fill differ, so that no other message
// passes for the last one, however short it is. Messages of a fill that are one or two apart differ in every byte, so
// that the earlier one may stand for the poison of the later one: the difference of their words has no byte 0x00 and no
// byte 0xFF, so that no carry from the byte below makes two bytes equal. A step is a line of GPU memory, so that
// kernels copy whole lines from every place.
inline constexpr std::uint64_t message_step_words = 16;
inline constexpr std::size_t message_step_bytes = message_step_words * sizeof(std::uint64_t);
inline constexpr std::uint64_t last_messages_per_fill = 15;
// Bytes of a fill after the first message. Arenas have this room.
inline constexpr std::size_t fill_room_bytes = last_messages_per_fill * message_step_bytes;

[[nodiscard]] constexpr bool messages_differ_in_the_first_byte() {
  for (std::uint64_t apart = 1; apart <= last_messages_per_fill; ++apart) {
    if ((apart * message_step_words * pattern_step & 0xFF) == 0) return false;
  }
  return true;
}
static_assert(messages_differ_in_the_first_byte());

[[nodiscard]] constexpr bool messages_differ_in_every_byte(std::uint64_t apart) {
  for (std::uint64_t rest = apart * message_step_words * pattern_step, i = 0; i < 8; ++i, rest >>= 8) {
    if ((rest & 0xFF) == 0x00 || (rest & 0xFF) == 0xFF) return false;
  }
  return true;
}
static_assert(messages_differ_in_every_byte(1) && messages_differ_in_every_byte(2));

// The first wrong byte, and the number of wrong bytes.
struct Mismatch {
  int rank = 0;                   // the world rank whose receive buffer is wrong; the sampler sets it
  std::int64_t offset_bytes = 0;  // from the start of the message; negative or >= size: a guard byte
  std::uint8_t expected = 0;
  std::uint8_t found = 0;
  std::uint64_t wrong_bytes = 0;
  std::uint64_t messages = 1;  // that were compared at once: the wrong bytes are of all of them
};

// "the data differs from what was sent in 3 bytes, first at offset 16", with `data` "the data" and `sent` "was sent".
[[nodiscard]] std::string difference(const std::string& data, const std::string& sent, const Mismatch& mismatch);

// --- collectives ---

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
//
// Of types so short that these sums would not be exact, and of maxima, one rank contributes to each position and the
// others 0: the result is its bits, and is 0 where it is missing. Which rank that is changes from word to word and
// from message to message. The types are words of `packed_bits`; all their values are positive numbers of medium size.
struct Contributions {
  bool reduces = false;
  bool floats = false;
  std::uint32_t ranks = 1;
  std::uint32_t bits = 0;
  std::uint64_t start = 0;
  std::uint32_t packed_bits = 0;  // 0: every rank contributes to every position

  static constexpr std::uint32_t min_bits = 9;  // messages of one fill begin fewer elements apart than 2^9
  static_assert(last_messages_per_fill * message_step_bytes / element_bytes < std::uint64_t{1} << min_bits);
  static constexpr std::uint64_t rank_step = 0xD1B54A32D192ED03ULL;
  static constexpr int sum = -1;  // in place of a rank: of all ranks
  // In place of a rank: of the first ranks, as many as this; a scan sums them.
  [[nodiscard]] static constexpr int sum_of_first(int number) { return sum - number; }

  [[nodiscard]] constexpr std::uint32_t varying(std::uint64_t position) const {
    const std::uint64_t all =
        start + position * pattern_step + (position >> bits) + (position >> 2 * bits) + (position >> 3 * bits);
    return static_cast<std::uint32_t>(all & ((std::uint64_t{1} << bits) - 1));
  }
  // The whole number that is contributed; that of a sum is what its ranks contribute.
  [[nodiscard]] constexpr std::uint32_t number(int rank, std::uint64_t position) const {
    if (rank >= 0) return ranks + 1 + static_cast<std::uint32_t>(rank) + varying(position);
    const std::uint32_t summed = rank == sum ? ranks : static_cast<std::uint32_t>(sum - rank);
    return summed * (ranks + 1) + summed * (summed - 1) / 2 + summed * varying(position);
  }
  // The one rank that contributes to a position, and what. The same place of the next message is of another rank.
  [[nodiscard]] constexpr int contributor(std::uint64_t position) const {
    constexpr std::uint64_t step = message_step_bytes / element_bytes;
    return static_cast<int>((start + position + (step % ranks == 0 ? position / step : 0)) % ranks);
  }
  [[nodiscard]] constexpr std::uint32_t packed(std::uint64_t position) const {
    const std::uint32_t low_bits = packed_bits - 3;
    auto bits_left = static_cast<std::uint32_t>((start + position * pattern_step) >> 32);
    std::uint32_t word = 0;
    for (std::uint32_t shift = 0; shift < 32; shift += packed_bits, bits_left >>= low_bits) {
      const std::uint32_t high = std::uint32_t{1} << low_bits;
      word |= (high | (bits_left & (high - 1))) << shift;
    }
    return word;
  }
  // The element as it lies in memory.
  [[nodiscard]] constexpr std::uint32_t element(int rank, std::uint64_t position) const {
    if (!reduces) {
      const std::uint64_t all = start + position * pattern_step + static_cast<std::uint64_t>(rank + 1) * rank_step;
      return static_cast<std::uint32_t>(all >> 32);
    }
    if (packed_bits > 0) {
      const int alone = contributor(position);
      return rank == alone || rank == sum || alone < sum - rank ? packed(position) : 0;
    }
    const std::uint32_t whole = number(rank, position);
    if (!floats) return whole;
    return std::bit_cast<std::uint32_t>(static_cast<float>(whole));  // exact
  }
};

// The first words of the messages of a fill differ, whatever is carried from below the upper half of the sequence.
[[nodiscard]] constexpr bool packed_messages_differ(std::uint32_t bits) {
  const std::uint32_t kept = 32 / bits * (bits - 3);
  for (std::uint64_t apart = 1; apart <= last_messages_per_fill; ++apart) {
    const std::uint64_t step = apart * message_step_bytes / element_bytes * pattern_step >> 32;
    if (((step & ((1U << kept) - 1)) == 0) || ((step + 1) & ((1U << kept) - 1)) == 0) return false;
  }
  return true;
}
static_assert(packed_messages_differ(8) && packed_messages_differ(16) && packed_messages_differ(32));

// Elements of a buffer: pieces which hold the elements of following ranks from the same position on; or of ranks and
// from positions that are a step apart.
struct Elements {
  Contributions of;
  std::uint64_t piece = 1;      // elements: of the first piece, the third, ...
  std::uint64_t odd_piece = 1;  // and of the second, the fourth, ...
  std::uint64_t position = 0;   // of the first element of each piece
  int rank = 0;                 // of the first piece; Contributions::sum: what all contribute
  std::uint64_t count = 0;
  std::uint32_t mask = 0;  // of every element
  int rank_step = 1;
  std::uint64_t position_step = 0;

  // The number of the piece that element i is in, and the element's number in it.
  struct ElementPlace {
    int piece;
    std::uint64_t element;
  };
  [[nodiscard]] constexpr ElementPlace place(std::uint64_t i) const {
    if (count == piece) return {0, i};
    const std::uint64_t pair = i / (piece + odd_piece);
    const std::uint64_t rest = i - pair * (piece + odd_piece);
    if (rest < piece) return {static_cast<int>(2 * pair), rest};
    return {static_cast<int>(2 * pair) + 1, rest - piece};
  }
  [[nodiscard]] constexpr std::uint32_t at(std::uint64_t i) const {
    const ElementPlace found = place(i);
    return of.element(rank_of(found), position_of(found)) ^ mask;
  }
  // Whose element it is, and its position in what that rank contributes.
  [[nodiscard]] constexpr int rank_of(const ElementPlace& found) const { return rank + found.piece * rank_step; }
  [[nodiscard]] constexpr std::uint64_t position_of(const ElementPlace& found) const {
    return position + static_cast<std::uint64_t>(found.piece) * position_step + found.element;
  }
  [[nodiscard]] constexpr std::uint64_t word(std::uint64_t i) const {
    return at(2 * i) | std::uint64_t{at(2 * i + 1)} << 32;
  }
};

[[nodiscard]] constexpr Elements opposite(Elements elements) {
  elements.mask = ~elements.mask;
  return elements;
}

// Messages of one sequence with a place of its own for each: the complement of the sequence lies between them.
struct SpacedWords {
  PatternWords all;
  std::uint64_t message_bytes;
  std::uint64_t stride;  // from one message to the next, whole words
  [[nodiscard]] constexpr std::uint64_t word(std::uint64_t i) const {
    const std::uint64_t within = i * sizeof i % stride;
    const std::uint64_t ours = within < message_bytes ? message_bytes - within : 0;  // bytes from here on
    const std::uint64_t kept = ours >= sizeof i ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * ours) - 1;
    return all.word(i) ^ ~kept;
  }
};

[[nodiscard]] constexpr SpacedWords opposite(SpacedWords words) {
  words.all = opposite(words.all);
  return words;
}

// 8 bytes each, little endian; where the bytes end within a word, its first bytes.
using Words = std::variant<PatternWords, SpacedWords, Elements>;

[[nodiscard]] constexpr std::uint8_t byte_of(std::uint64_t word, std::uint64_t byte) {
  return static_cast<std::uint8_t>(word >> (8 * (byte % sizeof word)));
}

// Of some bytes the offset of the first that is wrong, and the number of wrong ones.
struct WrongBytes {
  unsigned long long first = ~0ULL;
  unsigned long long count = 0;
};

void write_words(std::byte* at, std::size_t bytes, const Words& words);
[[nodiscard]] WrongBytes compare_words(const std::byte* at, std::size_t bytes, const Words& words);

// The same where what is expected lies in memory, of bytes of which the first is byte `offset` of the message: adds the
// wrong ones to `wrong`.
void compare_bytes(const std::byte* found, const std::byte* expected, std::size_t bytes, std::size_t offset,
                   Mismatch& wrong);

}  // namespace volley
