// A kernel that holds a Stream: what is enqueued behind it begins when the blocker is opened, or after a deadline.
#pragma once

#include <chrono>

#include "gpu/buffers.cuh"
#include "gpu/streams.cuh"

namespace volley::gpu_matrix {

using Seconds = std::chrono::duration<double>;

class StreamBlocker {
 public:
  StreamBlocker();
  // What is enqueued on the Stream from now on waits. The Stream's device must be the current one.
  void close(const gpu::Stream& cuda_stream, Seconds timeout);
  void open();
  // Whether a Stream went on because of its deadline.
  [[nodiscard]] bool expired() const;

 private:
  gpu::PinnedBuffer memory_;
  std::uint64_t ticket_ = 0;
};

}  // namespace volley::gpu_matrix
