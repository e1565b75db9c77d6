// Holds streams: what is enqueued behind a closed gate begins when it is opened, or after a deadline.
#pragma once

#include <chrono>

#include "../handles/pinned_buffer.cuh"
#include "../handles/stream.cuh"

namespace volley::node {

using Seconds = std::chrono::duration<double>;

class Gate {
 public:
  Gate();
  // What is enqueued on the stream from now on waits. The stream's device must be the current one.
  void close(const gpu::Stream& stream, Seconds patience);
  void open();
  // Some stream went on because of its deadline.
  [[nodiscard]] bool expired() const;

 private:
  gpu::PinnedBuffer memory_;
  std::uint64_t ticket_ = 0;
};

}  // namespace volley::node
