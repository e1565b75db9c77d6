#include "messages/message_check.hpp"

namespace volley {

void MessageCheck::fill(const CheckedMessages& of) {
  const std::pair lengths(of.bytes, of.places_bytes);
  if (of.verifier == nullptr || (filled_ == lengths && kind_ == of.verifier->kind())) return;
  ++fills_;
  number_ = 0;
  arrived_.reset();
  checked_by_ = nullptr;
  of.verifier->fill(of.send, of.places_bytes + of.bytes + fill_room_bytes, seed(of, of.sends, fills_));
  filled_ = lengths;
  kind_ = of.verifier->kind();
}

// Numbers begin again after the last place, at most that of the fill's last message. Messages of a fill that are one or
// two apart differ in every byte, see messages/pattern.hpp.
std::size_t MessageCheck::expect_next(const CheckedMessages& of, bool may_stand, std::uint64_t places) {
  number_ = number_ % places + 1;
  if (!of.verified()) return number_ * message_step_bytes;
  const std::uint64_t apart = arrived_ ? std::max(number_, *arrived_) - std::min(number_, *arrived_) : 0;
  const bool in_turn = checked_by_ == of.verifier && (apart == 1 || apart == 2);
  const bool stands = may_stand && in_turn && !of.verifier->takes_what_is_there();
  if (of.arrive && !stands) of.verifier->poison(of.recv, of.bytes, expected(of));
  checked_by_ = of.verifier;
  arrived_.reset();
  return number_ * message_step_bytes;
}

std::optional<Mismatch> MessageCheck::check(const CheckedMessages& of) {
  if (!of.verified() || !of.arrive) return std::nullopt;
  const auto found = of.verifier->check(of.recv, of.bytes, expected(of));
  if (!found) arrived_ = number_;
  return found;
}

void MessageCheck::fill_one_buffer(const CheckedMessages& of, bool leads) {
  if (!of.verified()) return;
  filled_.reset();
  arrived_.reset();
  const std::uint64_t sent = seed(of, 0, ++fills_);
  of.verifier->poison(of.send, of.bytes, sent);
  if (leads) of.verifier->fill(of.send, of.bytes, sent);
}

std::optional<Mismatch> MessageCheck::check_one_buffer(const CheckedMessages& of) const {
  if (!of.verified()) return std::nullopt;
  return of.verifier->check(of.send, of.bytes, seed(of, 0, fills_));
}

// Messages of memory are parts of one sequence: one fill, one poison and one comparison for all, however many there
// are. Those of other verifiers are fills of their own.
void MessageCheck::fill_pass(const CheckedMessages& of, std::uint64_t count, std::size_t stride) {
  filled_.reset();
  arrived_.reset();
  const std::uint64_t first = fills_ + 1;
  fills_ += count;
  if (Memory* const memory = of.verifier->memory()) {
    const std::size_t whole = (count - 1) * stride + of.bytes;
    memory->fill(of.send, whole, seed(of, of.sends, first));
    if (of.arrive) memory->poison(of.recv, whole, seed(of, of.receives, first));
    return;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    of.verifier->fill(of.send + i * stride, of.bytes, seed(of, of.sends, first + i));
    if (of.arrive) of.verifier->poison(of.recv + i * stride, of.bytes, seed(of, of.receives, first + i));
  }
}

std::optional<Mismatch> MessageCheck::check_pass(const CheckedMessages& of, std::uint64_t count, std::size_t stride) {
  if (!of.arrive) return std::nullopt;
  const std::uint64_t first = fills_ + 1 - count;
  if (Memory* const memory = of.verifier->memory()) {
    const std::uint64_t sent = seed(of, of.receives, first);
    const std::size_t whole = (count - 1) * stride + of.bytes;
    const SpacedWords words{Contents(sent).words(), of.bytes, stride};
    auto found = memory->check(of.recv, whole, words, sent);
    if (found) found->messages = count;
    const auto end = static_cast<std::int64_t>(whole);
    if (found && found->offset_bytes >= 0 && found->offset_bytes < end) {
      found->offset_bytes %= static_cast<std::int64_t>(stride);
    } else if (found && found->offset_bytes >= end) {
      found->offset_bytes -= end - static_cast<std::int64_t>(of.bytes);
    }
    return found;
  }
  std::optional<Mismatch> first_found;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto found = of.verifier->check(of.recv + i * stride, of.bytes, seed(of, of.receives, first + i));
    if (!first_found) first_found = found;
  }
  return first_found;
}

}  // namespace volley
