#include "benchmark/gpu_matrix/stream_blocker.cuh"

#include "gpu/check.cuh"
#include "gpu/kernels/device_access.cuh"

namespace volley::gpu_matrix {

namespace {

using device::SystemAtomic;

// In host memory.
struct Latch {
  std::uint64_t open;     // the last ticket that may go on
  std::uint64_t expired;  // a ticket that was waited for in vain
};

__global__ void hold(Latch* latch, std::uint64_t ticket, std::uint64_t timeout_ns) {
  const std::uint64_t deadline_ns = device::now_ns() + timeout_ns;
  while (SystemAtomic(latch->open).load(cuda::memory_order_acquire) < ticket) {
    if (device::now_ns() < deadline_ns) continue;
    SystemAtomic(latch->expired).store(ticket, cuda::memory_order_release);
    return;
  }
}

Latch& latch_in(const gpu::PinnedBuffer& memory) { return *reinterpret_cast<Latch*>(memory.data()); }

}  // namespace

StreamBlocker::StreamBlocker() : memory_(sizeof(Latch)) { latch_in(memory_) = {}; }

void StreamBlocker::close(const gpu::Stream& cuda_stream, Seconds timeout) {
  const auto timeout_ns = static_cast<std::uint64_t>(1e9 * timeout.count());
  hold<<<1, 1, 0, cuda_stream.get()>>>(&latch_in(memory_), ++ticket_, timeout_ns);
  VOLLEY_CUDA_CHECK(cudaGetLastError());
}

void StreamBlocker::open() { SystemAtomic(latch_in(memory_).open).store(ticket_, cuda::memory_order_release); }

bool StreamBlocker::expired() const {
  return SystemAtomic(latch_in(memory_).expired).load(cuda::memory_order_acquire) != 0;
}

}  // namespace volley::gpu_matrix
