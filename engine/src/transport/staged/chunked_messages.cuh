// The common part of transports that stage messages in chunks through pinned memory.
#pragma once

#include "transport/staged/chunk_pipeline.hpp"
#include "transport/staged/copies.cuh"

namespace volley {

// The calls of a HostDriven channel, except those that open, close and acknowledge.
template <class ChunkTransport>
class ChunkedChannel {
 public:
  explicit ChunkedChannel(const ChunkPolicy& policy) : policy_(policy) {}

  void prepare(const View& view) { pipeline_.prepare(view.bytes, policy_.of(view.bytes)); }

  // Each returns when the whole message has left the device, or is on it: an answer does not start before.
  void send(const View& view) {
    start_send(view);
    finish();
  }
  void recv(const View& view) {
    start_recv(view);
    finish();
  }
  void start_send(const View& view) { pipeline_.add_send(view); }
  void start_recv(const View& view) { pipeline_.add_recv(view); }
  void finish() { pipeline_.run(); }

  // Of both directions.
  [[nodiscard]] std::uint64_t host_memory_bytes(std::uint64_t, const std::optional<Window>&) const {
    return 2 * policy_.ring_bytes;
  }
  [[nodiscard]] Json facts() const { return policy_.facts(); }

 protected:
  ChunkPipeline<ChunkTransport, AsyncCopies> pipeline_;

 private:
  const ChunkPolicy& policy_;
};

}  // namespace volley
