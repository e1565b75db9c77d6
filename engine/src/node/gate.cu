#include "gate.cuh"

#include "../gpu/check_cuda.cuh"
#include "../transport/device_access.cuh"

namespace volley::node {

namespace {

using device::Told;

// In host memory.
struct Latch {
  std::uint64_t open;     // the last ticket that may go on
  std::uint64_t expired;  // a ticket that was waited for in vain
};

__global__ void hold(Latch* latch, std::uint64_t ticket, std::uint64_t patience_ns) {
  const std::uint64_t deadline_ns = device::now_ns() + patience_ns;
  while (Told(latch->open).load(cuda::memory_order_acquire) < ticket) {
    if (device::now_ns() < deadline_ns) continue;
    Told(latch->expired).store(ticket, cuda::memory_order_release);
    return;
  }
}

Latch& latch_in(const gpu::PinnedBuffer& memory) { return *reinterpret_cast<Latch*>(memory.data()); }

}  // namespace

Gate::Gate() : memory_(sizeof(Latch)) { latch_in(memory_) = {}; }

void Gate::close(const gpu::Stream& stream, Seconds patience) {
  const auto patience_ns = static_cast<std::uint64_t>(1e9 * patience.count());
  hold<<<1, 1, 0, stream.get()>>>(&latch_in(memory_), ++ticket_, patience_ns);
  VOLLEY_CUDA_CHECK(cudaGetLastError());
}

void Gate::open() { Told(latch_in(memory_).open).store(ticket_, cuda::memory_order_release); }

bool Gate::expired() const { return Told(latch_in(memory_).expired).load(cuda::memory_order_acquire) != 0; }

}  // namespace volley::node
