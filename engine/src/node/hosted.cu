// Links between a GPU and pinned memory of the host, on cores and in memory that are near the GPU.
#include <sched.h>

#include <fstream>
#include <string>

#include "../handles/pinned_buffer.cuh"
#include "../placement.hpp"
#include "lanes.cuh"

namespace volley::node {

namespace {

constexpr std::size_t page_bytes = 4096;

// As long as this lives the calling thread stays on the cores near a device, where there are some that it may use.
class Near {
 public:
  explicit Near(int device) {
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
  Near(const Near&) = delete;
  Near& operator=(const Near&) = delete;
  ~Near() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

// The copies of another link, between whose ends one is in this one's memory.
class Hosted final : public Link {
 public:
  Hosted(const Section& section, const Gpu& gpu, std::uint64_t bytes, Seconds patience)
      : near_(gpu.device), memory_((gpu::select(gpu.device), bytes + 2 * page_bytes)) {
    const Place host{verifier_.get(), memory_.data() + page_bytes, -1};
    const auto place = [&](std::byte* at) { return Place{gpu.memories[0].get(), at, gpu.device}; };
    const bool up = section.ends == Ends::host_to_gpu;
    Lane lane{.from = up ? host : place(gpu.buffers[0].send),
              .to = up ? place(gpu.buffers[0].recv) : host,
              .driver = &gpu,
              .number = 0,
              .over_link = std::nullopt};
    copies_ = make_copies(section, {lane}, false, patience, false);
  }

  void prepare(const View& view) override { copies_->prepare(view); }
  void pingpong(const View& view, std::uint64_t count) override { copies_->pingpong(view, count); }
  void stream(const View& view, std::uint64_t windows, const Stream& stream) override {
    copies_->stream(view, windows, stream);
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
  Near near_;
  gpu::PinnedBuffer memory_;
  std::unique_ptr<Memory> verifier_ = make_host_memory();  // of any host memory: it holds none itself
  std::unique_ptr<Link> copies_;
};

}  // namespace

std::unique_ptr<Link> make_hosted(const Section& section, const Gpu& gpu, std::uint64_t bytes, Seconds patience) {
  return std::make_unique<Hosted>(section, gpu, bytes, patience);
}

}  // namespace volley::node
