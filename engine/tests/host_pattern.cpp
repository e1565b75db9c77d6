// The pattern catches every single wrong bit, whatever the length, and the poison never passes for a message.
#include "expect.hpp"
#include "messages/memory.hpp"

#include <cstring>
#include <set>
#include <vector>

using namespace volley;

namespace {

// A message with room for its guards.
struct Buffer {
  explicit Buffer(std::size_t size) : block(size + 2 * guard_bytes), bytes(size) {}
  std::byte* message() { return block.data() + guard_bytes; }
  std::vector<std::byte> block;
  std::size_t bytes;
};

const auto memory = make_host_memory();

constexpr std::size_t lengths[] = {1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 200};

TEST(a_delivered_message_passes) {
  for (const auto bytes : lengths) {
    Buffer sent(bytes);
    Buffer received(bytes);
    memory->fill(sent.message(), bytes, 42);
    memory->poison(received.message(), bytes, 42);
    std::memcpy(received.message(), sent.message(), bytes);
    EXPECT(!memory->check(received.message(), bytes, 42));
  }
}

TEST(every_flipped_bit_is_found) {
  for (const auto bytes : lengths) {
    Buffer buffer(bytes);
    memory->poison(buffer.message(), bytes, 7);
    memory->fill(buffer.message(), bytes, 7);
    for (std::size_t bit = 0; bit < 8 * buffer.block.size(); ++bit) {
      auto& byte = buffer.block[bit / 8];
      byte ^= std::byte{1} << (bit % 8);
      const auto found = memory->check(buffer.message(), bytes, 7);
      EXPECT(found.has_value());
      const auto offset = static_cast<std::int64_t>(bit / 8) - static_cast<std::int64_t>(guard_bytes);
      EXPECT(found && found->offset_bytes == offset && found->wrong_bytes == 1);
      EXPECT(found && (found->expected ^ found->found) == 1 << (bit % 8));
      byte ^= std::byte{1} << (bit % 8);
    }
    EXPECT(!memory->check(buffer.message(), bytes, 7));
  }
}

// A batch that stops early leaves another message of the same fill where the last one should be.
TEST(messages_of_one_fill_differ) {
  for (const auto bytes : lengths) {
    Buffer sent(bytes + fill_room_bytes);
    memory->fill(sent.message(), bytes + fill_room_bytes, 42);
    Buffer received(bytes);
    for (std::uint64_t number = 0; number <= last_messages_per_fill; ++number) {
      const Contents expected(42, number * message_step_words);
      memory->poison(received.message(), bytes, expected);
      for (std::uint64_t other = 0; other <= last_messages_per_fill; ++other) {
        std::memcpy(received.message(), sent.message() + other * message_step_bytes, bytes);
        const auto found = memory->check(received.message(), bytes, expected);
        EXPECT(found.has_value() == (other != number));
        EXPECT(!found || found->offset_bytes == 0);
        const bool before = other < number && number - other <= 2;  // it may stand for the poison
        EXPECT(!before || found->wrong_bytes == bytes);
      }
    }
  }
}

TEST(poison_is_wrong_in_every_byte) {
  for (const auto bytes : lengths) {
    Buffer buffer(bytes);
    memory->poison(buffer.message(), bytes, 99);
    const auto found = memory->check(buffer.message(), bytes, 99);
    EXPECT(found && found->wrong_bytes == bytes && found->offset_bytes == 0);
  }
}

TEST(a_shifted_message_is_wrong) {
  const std::size_t bytes = 200;
  Buffer sent(bytes);
  memory->fill(sent.message(), bytes, 5);
  for (std::size_t shift = 1; shift < 32; ++shift) {
    Buffer received(bytes);
    memory->poison(received.message(), bytes, 5);
    std::memcpy(received.message() + shift, sent.message(), bytes - shift);
    EXPECT(memory->check(received.message(), bytes, 5).has_value());
  }
}

TEST(directions_differ_in_every_byte) {
  const std::size_t bytes = 200;
  for (std::uint64_t repetition = 0; repetition < 50; ++repetition) {
    Buffer there(bytes);
    memory->poison(there.message(), bytes, seed_of({bytes, 1, repetition}));
    memory->fill(there.message(), bytes, seed_of({bytes, 1, repetition}));
    EXPECT(!memory->check(there.message(), bytes, seed_of({bytes, 1, repetition})));
    Buffer back(bytes);
    memory->poison(back.message(), bytes, seed_of({bytes, 0, repetition}));
    std::memcpy(back.message(), there.message(), bytes);
    const auto found = memory->check(back.message(), bytes, seed_of({bytes, 0, repetition}));
    EXPECT(found && found->wrong_bytes == bytes);
  }
}

TEST(messages_of_one_base_differ_in_every_byte) {
  const std::size_t bytes = 200;
  const std::uint64_t before = seed_of({bytes, 0, 30});
  for (std::uint64_t repetition = 0; repetition < 128; ++repetition) {
    for (std::uint64_t direction = 0; direction < 2; ++direction) {
      const std::uint64_t expected = seed_of({bytes, direction, repetition});
      if (expected == before) continue;
      Buffer buffer(bytes);
      memory->poison(buffer.message(), bytes, before);  // guards, and then the message before
      memory->fill(buffer.message(), bytes, before);
      const auto found = memory->check(buffer.message(), bytes, expected);
      EXPECT(found && found->wrong_bytes == bytes && found->offset_bytes == 0);
    }
  }
}

TEST(every_stamp_has_its_own_seed) {
  std::set<std::uint64_t> seeds;
  std::size_t stamps = 0;
  for (std::uint64_t size = 1; size <= 1024; size *= 2) {
    for (std::uint64_t direction = 0; direction < 16; ++direction) {
      for (std::uint64_t repetition = 0; repetition < 300; ++repetition) {
        seeds.insert(seed_of({size, direction, repetition}));
        ++stamps;
      }
    }
  }
  EXPECT(seeds.size() == stamps);
}

// Messages with a place of their own are parts of one sequence: each byte of them is the sequence's, each byte between
// them the poison's, wherever a message ends in a word.
TEST(spaced_messages_are_checked_at_once) {
  constexpr std::size_t stride = 192;
  constexpr std::size_t count = 5;
  for (const auto bytes : {1, 7, 8, 9, 63, 64}) {
    const std::size_t message_bytes = static_cast<std::size_t>(bytes);
    const std::size_t whole = (count - 1) * stride + message_bytes;
    const SpacedWords expected{Contents(9).words(), message_bytes, stride};
    Buffer sent(whole);
    Buffer received(whole);
    memory->fill(sent.message(), whole, 9);
    memory->poison(received.message(), whole, 9);
    for (std::size_t i = 0; i < whole; i += stride) {
      EXPECT(memory->check(received.message(), whole, expected, 9)->offset_bytes == static_cast<std::int64_t>(i));
      std::memcpy(received.message() + i, sent.message() + i, message_bytes);
    }
    EXPECT(!memory->check(received.message(), whole, expected, 9));
    for (std::size_t i = 0; i < whole; ++i) {
      received.message()[i] ^= std::byte{4};
      const auto found = memory->check(received.message(), whole, expected, 9);
      EXPECT(found && found->offset_bytes == static_cast<std::int64_t>(i) && found->wrong_bytes == 1);
      received.message()[i] ^= std::byte{4};
    }
  }
}

}  // namespace

int main() { return test::run_all(); }
