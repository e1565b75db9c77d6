// A kernel that blocks a stream: work behind it begins when the blocker is opened, or after a deadline.
#pragma once

#include <chrono>

#include "gpu/buffers.cuh"
#include "gpu/streams.cuh"

namespace volley::gpu_matrix {

using Seconds = std::chrono::duration<double>;

class StreamBlocker {
 public:
  StreamBlocker();
  // Work that is enqueued on the stream from now on waits. The stream's device must be the current one.
  void close(const gpu::Stream& cuda_stream, Seconds timeout);
  void open();
  // Whether a stream continued because of the deadline.
  [[nodiscard]] bool expired() const;

 private:
  gpu::PinnedBuffer memory_;
  std::uint64_t ticket_ = 0;
};

}  // namespace volley::gpu_matrix
