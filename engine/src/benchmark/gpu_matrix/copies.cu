// Links whose data is moved by copy engines or by a copy kernel, between two GPUs or between a GPU and pinned memory of
// the host: bandwidth, the completion of one small copy, and the time to enqueue and to perform many.
#include <algorithm>

#include "benchmark/gpu_matrix/links.cuh"
#include "gpu/kernel_launch.cuh"
#include "gpu/kernels/copy.cuh"
#include "gpu/runtime.hpp"
#include "host/placement.hpp"

namespace volley::gpu_matrix {
namespace {

constexpr std::uint64_t first_copy_bytes = 64 << 10;
constexpr std::size_t host_page_bytes = 4096;
constexpr unsigned copy_threads = 512;
// Loads of a thread in flight before its first store: a thread waits for the link once for 192 bytes.
constexpr int copy_in_flight = 12;

// One block for each multiprocessor; `units` of 16 bytes.
__global__ void __launch_bounds__(copy_threads, 1) copy_kernel(const uint4* from, uint4* to, std::uint64_t units) {
  const std::uint64_t threads = std::uint64_t{gridDim.x} * blockDim.x;
  std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; first + (copy_in_flight - 1) * threads < units; first += copy_in_flight * threads) {
    gpu::kernels::copy_batch<copy_in_flight, false>(from, to, first, threads, units);
  }
  for (; first < units; first += threads) gpu::kernels::copy_batch<1, false>(from, to, first, threads, units);
}

class Copies : public GpuLink {
 public:
  using GpuLink::GpuLink;

  // The first copy of a link may hang, so it has a deadline. Later small ones have none: that is faster.
  void prepare(const View& view) override {
    const std::uint64_t bytes = std::min(view.bytes, first_copy_bytes);
    for (const auto& route : routes()) copy(route, route.from.at, route.to.at, bytes);
    finish(bytes);
  }

  void run(const View& view, std::uint64_t count, const std::optional<Window>& window) override {
    const int messages = window->messages;
    for (std::uint64_t turn = 1; turn <= count; ++turn) {
      const std::uint64_t before = (turn - 1) * static_cast<std::uint64_t>(messages);
      for (int message = 0; message < messages; ++message) {
        const std::uint64_t offset = (before + static_cast<std::uint64_t>(message)) * view.stride;
        for (const auto& route : routes()) {
          copy(route, route.source(view, turn, count) + offset, route.to.at + offset, view.bytes);
        }
      }
      if (section().metric == Metric::completion) synchronize();
    }
    if (section().metric == Metric::bandwidth) finish(count * view.bytes * static_cast<std::uint64_t>(messages));
  }

 protected:
  virtual void copy(const Route& route, const std::byte* from, std::byte* to, std::uint64_t bytes) {
    if (route.from.device < 0 || route.to.device < 0) {
      gpu::copy_async(to, from, bytes, route.cuda_stream().get());
    } else {
      gpu::copy_peer_async(to, route.to.device, from, route.from.device, bytes, route.cuda_stream().get());
    }
  }

 private:
  void synchronize() {
    for (const auto& route : routes()) route.cuda_stream().synchronize();
  }
  void finish(std::uint64_t bytes) {
    const Seconds enough = timeout() + Seconds(timeout_s_per_byte * static_cast<double>(bytes));
    for (const auto& route : routes()) await(route.cuda_stream(), enough);
  }
};

class KernelCopies final : public Copies {
 public:
  using Copies::Copies;

 protected:
  void copy(const Route& route, const std::byte* from, std::byte* to, std::uint64_t bytes) override {
    gpu::select(route.driver->device);
    copy_kernel<<<gpu::multiprocessors(route.driver->device), copy_threads, 0, route.cuda_stream().get()>>>(
        reinterpret_cast<const uint4*>(from), reinterpret_cast<uint4*>(to), bytes / sizeof(uint4));
    gpu::check_launch();
  }
};

// Pinned memory near a GPU. The calling thread is bound to cores near it.
struct HostEnd {
  HostEnd(int device, std::uint64_t bytes)
      : near(allowed_cpus_near(gpu::describe(device).pci)),
        memory((gpu::select(device), bytes + 2 * host_page_bytes)),
        verifier(make_host_memory()) {}
  [[nodiscard]] Location location() const { return {verifier.get(), memory.data() + host_page_bytes, -1}; }

  Binding near;
  gpu::PinnedBuffer memory;
  std::unique_ptr<Memory> verifier;  // works on any host memory; its own buffers are not used
};

class HostCopies final : private HostEnd, public Copies {
 public:
  HostCopies(const Section& section, const GpuEndpoint& gpu, std::uint64_t room_bytes, Seconds timeout)
      : HostEnd(gpu.device, room_bytes),
        Copies({section, {route(section, gpu, location())}, false, timeout, room_bytes}) {}

 private:
  static Route route(const Section& section, const GpuEndpoint& gpu, const Location& host) {
    const auto on_gpu = [&](std::byte* at) { return Location{gpu.memories[0].get(), at, gpu.device}; };
    const bool up = section.ends == Ends::host_to_gpu;
    return {.from = up ? host : on_gpu(gpu.buffers[0].send),
            .to = up ? on_gpu(gpu.buffers[0].recv) : host,
            .driver = &gpu,
            .number = 0,
            .over_link = std::nullopt};
  }
};

// Small copies are enqueued after a kernel that blocks the stream, as in the CUDA sample p2pBandwidthLatencyTest: so
// the time to enqueue copies and the time to perform them are measured separately.
class GatedCopies final : public GpuLink {
 public:
  using GpuLink::GpuLink;

  void arm(const View& view, std::uint64_t count) override {
    gpu::select(route().driver->device);
    blocker().close(route().cuda_stream(), timeout());
    if (!enqueues_) enqueue(view, count);
  }

  void run(const View& view, std::uint64_t count, const std::optional<Window>&) override {
    if (enqueues_) enqueue(view, count);
    else open_and_wait();
  }

  void disarm() override {
    if (enqueues_) open_and_wait();
    if (!blocker().expired()) return;
    throw HungError("enqueueing small copies did not end within " +
                    std::to_string(static_cast<int>(timeout().count())) + " s");
  }

 private:
  [[nodiscard]] const Route& route() const { return routes().front(); }
  [[nodiscard]] StreamBlocker& blocker() const { return *route().driver->blocker; }

  void enqueue(const View& view, std::uint64_t count) {
    for (std::uint64_t i = 1; i <= count; ++i) {
      const std::uint64_t offset = (i - 1) * view.stride;
      gpu::copy_peer_async(route().to.at + offset, route().to.device, route().source(view, i, count) + offset,
                           route().from.device, view.bytes, route().cuda_stream().get());
    }
  }

  void open_and_wait() {
    blocker().open();
    await(route().cuda_stream(), timeout());
  }

  // Otherwise what is timed is the time of the copies.
  const bool enqueues_ = section().metric == Metric::enqueue;
};

// A test: the blocker is not opened in time.
class HangingCopies final : public Copies {
 public:
  using Copies::Copies;

 protected:
  void copy(const Route& route, const std::byte* from, std::byte* to, std::uint64_t bytes) override {
    gpu::select(route.driver->device);
    blocker_.close(route.cuda_stream(), 3 * timeout());
    Copies::copy(route, from, to, bytes);
  }

 private:
  StreamBlocker blocker_;
};

}  // namespace

std::unique_ptr<GpuLink> make_copies(LinkSetup setup, bool broken) {
  if (broken && setup.section.fault == Fault::hang) return std::make_unique<HangingCopies>(std::move(setup));
  if (setup.section.engine == Engine::sm) return std::make_unique<KernelCopies>(std::move(setup));
  return std::make_unique<Copies>(std::move(setup));
}

std::unique_ptr<GpuLink> make_gated_copies(LinkSetup setup) { return std::make_unique<GatedCopies>(std::move(setup)); }

std::unique_ptr<GpuLink> make_host_copies(const Section& section, const GpuEndpoint& gpu, std::uint64_t room_bytes,
                                          Seconds timeout) {
  return std::make_unique<HostCopies>(section, gpu, room_bytes, timeout);
}

}  // namespace volley::gpu_matrix
