// Staging in chunks through pinned memory: what a message's copies and its way between the ranks have in common when
// they overlap, whatever the way is.
#pragma once

#include "host_driven.hpp"
#include "staged_conveyor.hpp"
#include "staged_copies.cuh"

namespace volley {

// The calls of a HostDriven channel but those that open, close and acknowledge.
template <class Link>
class ChunkedChannel {
 public:
  explicit ChunkedChannel(const Cutting& cutting) : cutting_(cutting) {}

  void prepare(const View& view) { conveyor_.prepare(view.bytes, cutting_.of(view.bytes)); }

  // Returns when the whole message has left the device, or is on it: an answer never starts before.
  void send(const View& view) {
    start_send(view);
    finish();
  }
  void recv(const View& view) {
    start_recv(view);
    finish();
  }
  void start_send(const View& view) { conveyor_.add_send(view); }
  void start_recv(const View& view) { conveyor_.add_recv(view); }
  void finish() { conveyor_.run(); }

  [[nodiscard]] Facts facts() const { return cutting_.facts(); }

 protected:
  Conveyor<Link, AsyncCopies> conveyor_;

 private:
  const Cutting& cutting_;
};

template <class Channel>
class Chunked final : public HostDriven<Channel> {
 public:
  [[nodiscard]] Facts facts() const override { return this->channel_.facts(); }
};

}  // namespace volley
