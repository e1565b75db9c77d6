#include "benchmark/gpu_matrix/stream_blocker.cuh"

#include <atomic>

#include "gpu/kernel_launch.cuh"
#include "gpu/kernels/poll.cuh"

namespace volley::gpu_matrix {

namespace {

// In host memory.
struct Latch {
  std::uint64_t open;     // the last ticket that may continue
  std::uint64_t expired;  // a ticket whose deadline has passed
};

__global__ void hold(Latch* latch, std::uint64_t ticket, std::uint64_t timeout_ns) {
  gpu::kernels::poll<1>(
      timeout_ns, [&] { return gpu::kernels::is_raised(latch->open, ticket); },
      [&](bool expired) {
        if (expired) gpu::kernels::raise(latch->expired, ticket);
        return expired;
      });
}

Latch& latch_in(const gpu::PinnedBuffer& memory) { return *reinterpret_cast<Latch*>(memory.data()); }

}  // namespace

StreamBlocker::StreamBlocker() : memory_(sizeof(Latch)) { latch_in(memory_) = {}; }

void StreamBlocker::close(const gpu::Stream& cuda_stream, Seconds timeout) {
  const auto timeout_ns = static_cast<std::uint64_t>(1e9 * timeout.count());
  hold<<<1, 1, 0, cuda_stream.get()>>>(&latch_in(memory_), ++ticket_, timeout_ns);
  gpu::check_launch();
}

void StreamBlocker::open() { std::atomic_ref(latch_in(memory_).open).store(ticket_, std::memory_order_release); }

bool StreamBlocker::expired() const {
  return std::atomic_ref(latch_in(memory_).expired).load(std::memory_order_acquire) != 0;
}

}  // namespace volley::gpu_matrix
