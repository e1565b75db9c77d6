// What the two buffers of an arena hold: the fill of the send buffer, the poison before a message, the number of the
// last message of a batch, its check, and the pass. All series that use the buffers share one, so that none of them
// changes what the next one finds.
#pragma once

#include <optional>
#include <utility>

#include "messages/memory.hpp"

namespace volley {

// The messages of a series, as one end of it sends and receives them.
struct CheckedMessages {
  Verifier* verifier = nullptr;  // null where messages have no contents
  bool verify = true;            // otherwise the send buffer is written once, and nothing is compared
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::size_t bytes = 0;
  std::size_t places_bytes = 0;  // before the last place of a message in a buffer
  std::size_t before_bytes = 0;  // before the place of the last message of the next batch, which is at `recv`
  int sends = 0;                 // the direction of what this end sends, as in Stamp
  int receives = 0;              // and of what it receives
  bool arrive = true;            // whether messages arrive at this end

  [[nodiscard]] bool verified() const { return verifier != nullptr && verify; }
};

// All ends of a series make the same calls, except the checks of what arrives: the number of a fill is then the same on
// all of them, and with it the contents.
class MessageCheck {
 public:
  // Fills the send buffer, at all places of messages, if it does not hold a fill for messages of this size. Without
  // verification, too: pages that were never written are all one page of zeros. A message that its sender has just
  // written takes up to 10 % longer for some milliseconds, so there is one fill for all samples of a size.
  void fill(const CheckedMessages& of);

  // The last message of the next batch: writes poison where it arrives, unless `may_stand` allows that the message
  // which is there stands for the poison. Returns how many bytes after the others it begins in the send buffer: one of
  // `places` distances, in turn.
  [[nodiscard]] std::size_t expect_next(const CheckedMessages& of, bool may_stand, std::uint64_t places);
  // Compares it.
  [[nodiscard]] std::optional<Mismatch> check(const CheckedMessages& of);
  // A batch that was not checked has left the first message of the fill in the receive buffer.
  void first_arrived() { arrived_ = 0; }

  // One buffer for both directions, at `of.send`: the first end (`leads`) writes the message, the others poison.
  void fill_one_buffer(const CheckedMessages& of, bool leads);
  [[nodiscard]] std::optional<Mismatch> check_one_buffer(const CheckedMessages& of) const;

  // A pass: `count` messages with contents of their own, each `stride` bytes after the one before in both buffers. The
  // bytes between two messages keep their poison. Returns the first mismatch, with the offset in its message.
  void fill_pass(const CheckedMessages& of, std::uint64_t count, std::size_t stride);
  [[nodiscard]] std::optional<Mismatch> check_pass(const CheckedMessages& of, std::uint64_t count, std::size_t stride);

 private:
  [[nodiscard]] static std::uint64_t seed(const CheckedMessages& of, int direction, std::uint64_t fill) {
    return seed_of({of.bytes, static_cast<std::uint64_t>(direction), fill});
  }
  [[nodiscard]] Contents expected(const CheckedMessages& of) const {
    return {seed(of, of.receives, fills_), number_ * message_step_words + of.before_bytes / sizeof(std::uint64_t)};
  }

  std::uint64_t fills_ = 0;  // so far; the number of a fill is part of its contents
  // The size of messages, and of their places, for which the send buffer holds the last fill.
  std::optional<std::pair<std::size_t, std::size_t>> filled_;
  int kind_ = 0;                          // of its contents, see Verifier::kind()
  std::uint64_t number_ = 0;              // of the last message that was expected
  std::optional<std::uint64_t> arrived_;  // the message of the fill that the receive buffer holds; none: unknown
  const Verifier* checked_by_ = nullptr;  // who wrote the guards of this fill around it
};

}  // namespace volley
