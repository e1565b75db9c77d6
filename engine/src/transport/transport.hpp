// A transport: one way for the bytes of a message to get from a buffer of one rank to a buffer of another.
#pragma once

#include <cstddef>
#include <string>

#include "group/context.hpp"
#include "host/memory.hpp"
#include "measure/driver.hpp"
#include "record/facts.hpp"

namespace volley {

// An exchanger between two ranks. Every call but `unavailable` and `facts` is made by both of them.
class Transport : public Driver {
 public:
  // Why this rank cannot use the transport; empty when it can. Must not communicate: both answers are compared.
  [[nodiscard]] virtual std::string unavailable(const Context& context, const RankGroup& pair) = 0;

  // Makes ready for messages within `buffers` of up to `capacity` bytes.
  virtual void open(const Context& context, const RankGroup& pair, const Buffers& buffers, std::size_t capacity) = 0;

  // Lets go of everything; a mapping of the other rank's memory is closed before that rank frees it.
  virtual void close() = 0;

  // What the transport settled on, for its record.
  [[nodiscard]] virtual Facts facts() const { return {}; }
};

}  // namespace volley
