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
  std::uint64_t direction;  // 0: sent by the first rank, 1: by the second
  std::uint64_t repetition;
};

// The seed of a message's contents. Its lowest byte is the tag: repetition modulo 128, and the direction. The rest is
// the base: SplitMix64's finaliser (Steele, Lea, Flood 2014) over the size and repetition / 128.
[[nodiscard]] std::uint64_t seed_of(const Stamp& stamp);

#if defined(__CUDACC__)
#define VOLLEY_ON_BOTH __host__ __device__
#else
#define VOLLEY_ON_BOTH
#endif

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit of the value.
[[nodiscard]] VOLLEY_ON_BOTH constexpr std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

[[nodiscard]] VOLLEY_ON_BOTH constexpr std::uint64_t tag_of(std::uint64_t seed) { return seed & 0xFF; }
[[nodiscard]] VOLLEY_ON_BOTH constexpr std::uint64_t base_of(std::uint64_t seed) { return seed & ~std::uint64_t{0xFF}; }

// Word w of the message (8 bytes, little endian): an arithmetic sequence with the golden-ratio step, so that every
// word of a message differs from every other one and a message that arrives shifted is as wrong as one that does not;
// the tag goes into each of its bytes. So messages of one base and different tags differ in every byte, there and back:
// a rank that gets back what it sent is caught for certain. The same formula runs on the GPU.
inline constexpr std::uint64_t pattern_step = 0x9E3779B97F4A7C15ULL;
[[nodiscard]] VOLLEY_ON_BOTH constexpr std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t word) {
  return (base_of(seed) + word * pattern_step) ^ (tag_of(seed) * 0x0101010101010101ULL);
}

// Poison is the complement of what is expected, so that a byte that never arrived is always wrong.
// Guard words follow the same sequence from the complement of the base, whatever the tag.
[[nodiscard]] VOLLEY_ON_BOTH constexpr std::uint64_t guard_word(std::uint64_t seed, std::uint64_t word) {
  return ~base_of(seed) ^ (word * pattern_step);
}

// What a message contains: the words of a seed from `first_word` on.
struct Contents {
  // NOLINTNEXTLINE(google-explicit-constructor): a seed alone means its words from the first on
  VOLLEY_ON_BOTH constexpr Contents(std::uint64_t of, std::uint64_t from = 0) : seed(of), first_word(from) {}
  [[nodiscard]] VOLLEY_ON_BOTH constexpr std::uint64_t word(std::uint64_t i) const {
    return pattern_word(seed, first_word + i);
  }
  std::uint64_t seed;
  std::uint64_t first_word;
};

// One fill of a send buffer holds several messages: message number m begins behind the first m * message_step_words
// words. Number 0 is what a batch sends; its last message has a number of its own in each sample, and is what is
// checked. The first bytes of the words of two messages of a fill differ, so that no other message passes for the last
// one, however short it is. And no byte of a message is equal to the one in its place in the message before it, which
// may stand for the poison: the difference of their words has neither a byte 0x00 nor a byte 0xFF, so that no carry from
// the byte below makes two bytes equal.
inline constexpr std::uint64_t message_step_words = 8;
inline constexpr std::size_t message_step_bytes = message_step_words * sizeof(std::uint64_t);
inline constexpr std::uint64_t last_messages_per_fill = 31;
// Bytes of a fill behind the first message. Arenas have so much room there.
inline constexpr std::size_t fill_room_bytes = last_messages_per_fill * message_step_bytes;

[[nodiscard]] constexpr bool messages_differ_in_the_first_byte() {
  for (std::uint64_t apart = 1; apart <= last_messages_per_fill; ++apart) {
    if ((apart * message_step_words * pattern_step & 0xFF) == 0) return false;
  }
  return true;
}
static_assert(messages_differ_in_the_first_byte());

[[nodiscard]] constexpr bool neighbours_differ_in_every_byte() {
  for (std::uint64_t rest = message_step_words * pattern_step, i = 0; i < 8; ++i, rest >>= 8) {
    if ((rest & 0xFF) == 0x00 || (rest & 0xFF) == 0xFF) return false;
  }
  return true;
}
static_assert(neighbours_differ_in_every_byte());

// The first wrong byte, and how many are wrong in all.
struct Mismatch {
  int rank = 0;                   // world rank whose receive buffer is wrong; set by the sampler
  std::int64_t offset_bytes = 0;  // from the start of the message; negative or >= size: a guard byte
  std::uint8_t expected = 0;
  std::uint8_t found = 0;
  std::uint64_t wrong_bytes = 0;
};

namespace host_pattern {

// Fills `bytes` bytes at `message`.
void fill(std::byte* message, std::size_t bytes, const Contents& contents);
// Poisons `bytes` bytes at `message` against `expected` and writes guards around them.
void poison(std::byte* message, std::size_t bytes, const Contents& expected);
// Compares every byte of the message and of its guards.
[[nodiscard]] std::optional<Mismatch> check(const std::byte* message, std::size_t bytes, const Contents& expected);

}  // namespace host_pattern

}  // namespace volley
