// Links between a GPU and pinned memory of the host, on cores and in memory that are near the GPU.
#include <sched.h>

#include <fstream>
#include <string>

#include "benchmark/gpu_matrix/routes.cuh"
#include "gpu/buffers.cuh"
#include "host/placement.hpp"

namespace volley::gpu_matrix {

namespace {

constexpr std::size_t page_bytes = 4096;

// As long as this lives the calling thread stays on the cores near a device, where there are some that it may use.
class NearGpu {
 public:
  explicit NearGpu(int device) {
    sched_getaffinity(0, sizeof before_, &before_);
    std::ifstream file("/sys/bus/pci/devices/" + gpu::describe(device).pci + "/local_cpulist");
    std::string list;
    std::getline(file, list);
    cpu_set_t chosen;
    CPU_ZERO(&chosen);
    for (const int cpu : parse_cpu_list(list)) {
      if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &chosen);
    }
    if (CPU_COUNT(&chosen) > 0) sched_setaffinity(0, sizeof chosen, &chosen);
  }
  NearGpu(const NearGpu&) = delete;
  NearGpu& operator=(const NearGpu&) = delete;
  ~NearGpu() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

// The copies of another link, between whose ends one is in this one's memory.
class HostCopies final : public GpuLink {
 public:
  HostCopies(const Section& section, const GpuEndpoint& gpu, std::uint64_t bytes, Seconds timeout)
      : near_(gpu.device), memory_((gpu::select(gpu.device), bytes + 2 * page_bytes)) {
    const Location host{verifier_.get(), memory_.data() + page_bytes, -1};
    const auto place = [&](std::byte* at) { return Location{gpu.memories[0].get(), at, gpu.device}; };
    const bool up = section.ends == Ends::host_to_gpu;
    Route route{.from = up ? host : place(gpu.buffers[0].send),
                .to = up ? place(gpu.buffers[0].recv) : host,
                .driver = &gpu,
                .number = 0,
                .over_link = std::nullopt};
    copies_ = make_copies(section, {route}, false, timeout, false);
  }

  void prepare(const View& view) override { copies_->prepare(view); }
  void round_trips(const View& view, std::uint64_t count) override { copies_->round_trips(view, count); }
  void windows(const View& view, std::uint64_t count, const Window& window) override {
    copies_->windows(view, count, window);
  }
  void fill(std::byte* message, std::size_t bytes, const Contents& contents) override {
    copies_->fill(message, bytes, contents);
  }
  void poison(std::byte* message, std::size_t bytes, const Contents& expected) override {
    copies_->poison(message, bytes, expected);
  }
  std::optional<Mismatch> check(const std::byte* message, std::size_t bytes, const Contents& expected) override {
    return copies_->check(message, bytes, expected);
  }
  [[nodiscard]] std::string complaint() const override { return copies_->complaint(); }
  [[nodiscard]] bool peers() const override { return false; }

 private:
  NearGpu near_;
  gpu::PinnedBuffer memory_;
  std::unique_ptr<Memory> verifier_ = make_host_memory();  // of any host memory: it holds none itself
  std::unique_ptr<GpuLink> copies_;
};

}  // namespace

std::unique_ptr<GpuLink> make_host_copies(const Section& section, const GpuEndpoint& gpu, std::uint64_t bytes,
                                          Seconds timeout) {
  return std::make_unique<HostCopies>(section, gpu, bytes, timeout);
}

}  // namespace volley::gpu_matrix
