// Halos of `device`: a kernel stores this rank's halo straight into the neighbour's device memory, another waits for
// the neighbour's. Both are enqueued between the kernels that compute; no host takes part.
#include <algorithm>
#include <array>
#include <atomic>
#include <stdexcept>

#include "gpu/device_buffer.cuh"
#include "gpu/kernels/device_access.cuh"
#include "gpu/pinned_buffer.cuh"
#include "transport/halo_link.hpp"
#include "transport/makers.hpp"
#include "transport/peer_memory.cuh"

namespace volley {

namespace {

// As in device.cu: shorter than the watchdog's timeout, so that the device says what it waited for.
constexpr std::uint64_t timeout_ns = 10'000'000'000;
constexpr unsigned polls_between_looks = 4096;
constexpr unsigned block_threads = 256;
constexpr unsigned most_blocks = 32;

// In the memory of the device that polls it; the other device writes into it.
struct Post {
  std::uint64_t arrived;                // number of the last halo that is whole
  alignas(128) std::uint32_t given_up;  // the other device waits no longer
  alignas(128) unsigned stored;         // of this device's own halo: blocks that have stored their part
};

// In host memory of this rank.
struct HaloVerdict {
  enum : std::uint32_t { good, expired, deserted };
  std::uint32_t outcome;
  std::uint64_t number;
};

// Halos are whole numbers of 4 bytes, and begin on a page.
//
// A block's stores come before its thread 0's fence (__syncthreads, and fences are cumulative: PTX ISA, "Causality
// order"), that before its count, all counts before the last block's fence and that before the number: who acquires the
// number has the whole halo.
__global__ void store_halo(const std::uint32_t* from, std::uint32_t* there, std::uint64_t words, Post* here,
                           Post* post_there, std::uint64_t number) {
  const std::uint64_t thread = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  const std::uint64_t threads = gridDim.x * std::uint64_t{blockDim.x};
  const std::uint64_t vectors = words / 4;
  for (std::uint64_t i = thread; i < vectors; i += threads) {
    device::store(reinterpret_cast<uint4*>(there) + i, device::load(reinterpret_cast<const uint4*>(from) + i));
  }
  for (std::uint64_t i = 4 * vectors + thread; i < words; i += threads) there[i] = from[i];
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence_system();
  if (atomicAdd(&here->stored, 1U) != gridDim.x - 1) return;
  here->stored = 0;
  __threadfence_system();
  device::SystemAtomic(post_there->arrived).store(number, cuda::memory_order_release);
}

// Ends when the halo `number` is here. When it does not come, says so, ends the other device's waiting, and from then
// on waits for nothing.
__global__ void await_halo(Post* here, Post* post_there, HaloVerdict* verdict, std::uint64_t number) {
  std::uint64_t deadline_ns = 0;
  for (unsigned polls = 1; device::SystemAtomic(here->arrived).load(cuda::memory_order_acquire) < number; ++polls) {
    if (polls % polls_between_looks != 0) continue;
    const std::uint64_t now = device::now_ns();
    if (deadline_ns == 0) deadline_ns = now + timeout_ns;
    if (device::SystemAtomic(verdict->outcome).load(cuda::memory_order_relaxed) != HaloVerdict::good) return;
    const bool deserted = device::SystemAtomic(here->given_up).load(cuda::memory_order_relaxed) != 0;
    if (!deserted && now < deadline_ns) continue;
    device::SystemAtomic(verdict->number).store(number, cuda::memory_order_relaxed);
    device::SystemAtomic(verdict->outcome)
        .store(deserted ? HaloVerdict::deserted : HaloVerdict::expired, cuda::memory_order_release);
    device::SystemAtomic(post_there->given_up).store(1U, cuda::memory_order_relaxed);
    return;
  }
}

class DeviceHalo final : public HaloLink {
 public:
  std::string unavailable(const Context& context, const RankGroup& pair) override {
    return without_concurrent_kernels(context, pair);
  }

  void open(const Context&, const RankGroup& pair, const Buffers& buffers, std::size_t, const View&) override {
    control_ = pair.control.get();
    ranks_ = {pair.ranks[static_cast<std::size_t>(pair.self)], pair.ranks[static_cast<std::size_t>(pair.peer())]};
    verdict_ = gpu::PinnedBuffer(sizeof(HaloVerdict));
    *verdict() = {HaloVerdict::good, 0};
    post_ = gpu::DeviceBuffer(sizeof(Post));
    VOLLEY_CUDA_CHECK(cudaMemset(post_.data(), 0, sizeof(Post)));
    VOLLEY_CUDA_CHECK(cudaDeviceSynchronize());
    post_there_ = gpu::IpcMapping(swapped(gpu::ipc_handle(post_.data()), pair));
    buffers_ = PeerBuffers(pair, buffers);
    VOLLEY_MPI(MPI_Barrier(control_));  // the other rank's first halo comes after this
  }

  [[nodiscard]] bool host_driven() const override { return false; }

  void leave(const View& view, CUstream_st* cuda_stream) override {
    const auto threads = view.bytes / sizeof(uint4) + 1;
    const auto blocks = std::clamp<std::size_t>((threads + block_threads - 1) / block_threads, 1, most_blocks);
    store_halo<<<static_cast<unsigned>(blocks), block_threads, 0, cuda_stream>>>(
        reinterpret_cast<const std::uint32_t*>(view.send),
        reinterpret_cast<std::uint32_t*>(buffers_.opposite(view.recv)), view.bytes / sizeof(std::uint32_t), here(),
        there(), ++number_);
    VOLLEY_CUDA_CHECK(cudaGetLastError());
  }

  void arrive(const View&, CUstream_st* cuda_stream) override {
    await_halo<<<1, 1, 0, cuda_stream>>>(here(), there(), verdict(), number_);
    VOLLEY_CUDA_CHECK(cudaGetLastError());
  }

  void start(const View&) override {}
  void finish() override {}

  void progress() override {
    const auto outcome = std::atomic_ref(verdict()->outcome).load(std::memory_order_acquire);
    if (outcome == HaloVerdict::good) return;
    const std::string what =
        "halo " + std::to_string(verdict()->number) + " from the device of rank " + std::to_string(ranks_[1]);
    if (outcome == HaloVerdict::deserted) {
      throw std::runtime_error("device: the device of rank " + std::to_string(ranks_[1]) +
                               " gave up, and with it rank " + std::to_string(ranks_[0]) + " while it waited for " +
                               what);
    }
    throw std::runtime_error("device: the device of rank " + std::to_string(ranks_[0]) + " waited " +
                             std::to_string(timeout_ns / 1'000'000'000) + " s for " + what +
                             ": its kernel does not run, or its stores do not arrive");
  }

  // The other rank's mapping of the post goes before the post.
  void close() override {
    buffers_ = {};
    post_there_ = {};
    VOLLEY_MPI(MPI_Barrier(control_));
    post_ = {};
    verdict_ = {};
  }

 private:
  [[nodiscard]] HaloVerdict* verdict() const { return reinterpret_cast<HaloVerdict*>(verdict_.data()); }
  [[nodiscard]] Post* here() const { return reinterpret_cast<Post*>(post_.data()); }
  [[nodiscard]] Post* there() const { return reinterpret_cast<Post*>(post_there_.data()); }

  MPI_Comm control_ = MPI_COMM_NULL;
  std::array<int, 2> ranks_{};  // this rank's and the other's number in the world
  std::uint64_t number_ = 0;    // of the last halo, the same on both ranks
  gpu::PinnedBuffer verdict_;
  gpu::DeviceBuffer post_;
  gpu::IpcMapping post_there_;
  PeerBuffers buffers_;
};

}  // namespace

std::unique_ptr<HaloLink> make_device_halo() { return std::make_unique<DeviceHalo>(); }

}  // namespace volley
