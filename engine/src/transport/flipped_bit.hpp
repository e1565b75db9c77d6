// The bit that test transports flip in a message.
#pragma once

#include <cstddef>
#include <cstdint>

#include "host/pattern.hpp"

namespace volley {

// One bit of a message. Consecutive numbers give bits in all parts of the message.
struct FlippedBit {
  FlippedBit(std::uint64_t number, std::size_t bytes) : at(number * pattern_step % (8 * bytes)) {}

  [[nodiscard]] std::size_t byte() const { return at / 8; }
  [[nodiscard]] std::byte mask() const { return std::byte{1} << (at % 8); }
  void flip(std::byte* message) const { message[byte()] ^= mask(); }

  std::uint64_t at;
};

}  // namespace volley
