// The interface between the timing loop and a transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace volley {

enum class Direction { uni, bi };

[[nodiscard]] inline const char* name_of(Direction direction) { return direction == Direction::bi ? "bi" : "uni"; }

// Messages in flight at once before one acknowledgement, one way or both.
struct Window {
  int messages = 64;
  Direction direction = Direction::uni;

  // Whether the first rank, which leads, or the other one sends and receives messages.
  [[nodiscard]] bool sends(bool leads) const { return leads || direction == Direction::bi; }
  [[nodiscard]] bool receives(bool leads) const { return !leads || direction == Direction::bi; }
};

// The current message: where it is sent from, where it arrives, how long it is. `send` and `recv` are in the buffers
// given to `open`; they are equal if one buffer is used in both directions, as in the tutorial.
struct View {
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::size_t bytes = 0;
  // The last message of a call (or those of its last window) is sent from so many bytes behind `send`. Its contents
  // differ from those of all messages before, and are what the receiver's check expects.
  std::size_t last_offset = 0;
  // Bytes from one message of a call to the next, in both buffers. 0 in timed calls: all have one place.
  std::size_t stride = 0;

  [[nodiscard]] View last() const { return {send + last_offset, recv, bytes, 0, stride}; }
  // Message number `i` of a call, counted from 0: that of round trip `i`, or message `n` of window `w` where i is
  // w * window.messages + n.
  [[nodiscard]] View message(std::uint64_t i) const {
    return {send + i * stride, recv + i * stride, bytes, last_offset, stride};
  }
};

// Moves messages between two endpoints. Only `round_trips` and `windows` are timed: they return when the data is
// usable. A driver is asked only for what its workload consists of.
class Driver {
 public:
  virtual ~Driver() = default;

  // Prepares for messages of this view, e.g. builds a datatype.
  virtual void prepare(const View&) {}

  // `exchanges` round trips: the first endpoint sends and then receives, the second the other way round. The answer
  // starts only when the whole message has arrived.
  virtual void round_trips(const View&, [[maybe_unused]] std::uint64_t exchanges) {
    throw std::logic_error("this driver makes no round trips");
  }

  // `count` times: `window.messages` messages in flight at once, then one acknowledgement.
  virtual void windows(const View&, [[maybe_unused]] std::uint64_t count, const Window&) {
    throw std::logic_error("this driver makes no windows");
  }

  // Called right before and right after each timed batch of `count`.
  virtual void arm(const View&, std::uint64_t) {}
  virtual void disarm() {}

  // Seconds of parts of a count, the means over the latest batch, if this driver times any; always as many.
  [[nodiscard]] virtual std::vector<double> parts_s() const { return {}; }
};

}  // namespace volley
