// What the buffers of an arena hold, whoever used them before: the guards of a fill are written before its first check.
#include "messages/message_check.hpp"

#include "expect.hpp"

#include <array>
#include <cstring>

using namespace volley;

namespace {

// Long exchanges: after an untimed one the message that is there may stand for the poison.
void exchange(MessageCheck& messages, const CheckedMessages& of, std::uint64_t places) {
  messages.fill(of);
  std::memcpy(of.recv, of.send, of.bytes);
  messages.first_arrived();
  for (int batch = 0; batch < 4; ++batch) {
    const std::size_t offset = messages.expect_next(of, true, places);
    std::memcpy(of.recv, of.send + offset, of.bytes);
    EXPECT(!messages.check(of));
  }
  static_cast<void>(messages.expect_next(of, true, places));  // a batch that delivers nothing
  EXPECT(messages.check(of).has_value());
}

void exchange(MessageCheck& messages, const CheckedMessages& of) {
  for (const std::uint64_t places : {last_messages_per_fill, std::uint64_t{2}}) exchange(messages, of, places);
}

TEST(each_size_and_each_pass_has_guards_of_its_own) {
  constexpr std::size_t stride = 3072;
  const auto memory = make_host_memory();
  const Buffers buffers = memory->reserve(4 * stride);
  MessageCheck messages;
  CheckedMessages of{.verifier = memory.get(), .send = buffers.send, .recv = buffers.recv};
  for (const std::size_t bytes : std::array<std::size_t, 3>{1000, 2000, 1000}) {
    of.bytes = bytes;
    exchange(messages, of);
    messages.fill_pass(of, 3, stride);
    for (std::size_t at = 0; at < 3 * stride; at += stride) std::memcpy(of.recv + at, of.send + at, bytes);
    EXPECT(!messages.check_pass(of, 3, stride));
    exchange(messages, of);
  }
}

// Messages that have one place and messages of the same size that have two share a buffer, in turns.
TEST(a_place_that_the_last_fill_left_out_is_filled) {
  constexpr std::size_t stride = 3072;
  const auto memory = make_host_memory();
  const Buffers buffers = memory->reserve(2 * stride);
  MessageCheck messages;
  const CheckedMessages one{.verifier = memory.get(), .send = buffers.send, .recv = buffers.recv, .bytes = 1000};
  CheckedMessages second = one;
  second.recv += stride;
  second.places_bytes = second.before_bytes = stride;
  for (int turn = 0; turn < 2; ++turn) {
    exchange(messages, one);
    CheckedMessages other = one;
    other.bytes = 500;
    exchange(messages, other);
    exchange(messages, one);
    messages.fill(second);
    const std::size_t offset = messages.expect_next(second, false, last_messages_per_fill);
    std::memcpy(second.recv, second.send + stride + offset, second.bytes);
    EXPECT(!messages.check(second));
  }
}

}  // namespace

int main() { return test::run_all(); }
