// A transport: one way for the bytes of a message to get from a buffer of one rank to a buffer of another.
#pragma once

#include <cstddef>
#include <string>

#include "../context.hpp"
#include "../measure/exchanger.hpp"
#include "../memory.hpp"
#include "facts.hpp"

namespace volley {

// An exchanger between two ranks. Every call but `unavailable` and `facts` is made by both of them.
class Transport : public Exchanger {
 public:
  // Why this rank cannot use the transport; empty when it can. Must not communicate: both answers are compared.
  [[nodiscard]] virtual std::string unavailable(const Context& context, const Pair& pair) = 0;

  // Makes ready for messages within `buffers` of up to `capacity` bytes.
  virtual void open(const Context& context, const Pair& pair, const Buffers& buffers, std::size_t capacity) = 0;

  // Lets go of everything; a mapping of the other rank's memory is closed before that rank frees it.
  virtual void close() = 0;

  // What the transport settled on, for its record.
  [[nodiscard]] virtual Facts facts() const { return {}; }
};

}  // namespace volley
