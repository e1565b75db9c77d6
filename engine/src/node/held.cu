// Links whose small copies are enqueued behind a kernel that holds the stream, as the CUDA sample p2pBandwidthLatencyTest
// does it: then enqueueing and performing them can be timed apart.
#include "../gpu/check_cuda.cuh"
#include "../handles/pinned_buffer.cuh"
#include "kernels.cuh"
#include "lanes.cuh"

namespace volley::node {

namespace {

class Held final : public LaneLink {
 public:
  Held(const Section& section, std::vector<Lane> lanes, bool peers, Seconds patience)
      : LaneLink(std::move(lanes), peers),
        enqueues_(section.figure == Figure::enqueue),
        patience_(patience),
        memory_(sizeof(Gate)) {
    *gate() = {};
  }

  void arm(const View& view, std::uint64_t count) override {
    gpu::select(lane().driver->device);
    const auto patience_ns = static_cast<std::uint64_t>(1e9 * patience_.count());
    hold<<<1, 1, 0, lane().stream().get()>>>(gate(), ++ticket_, patience_ns);
    VOLLEY_CUDA_CHECK(cudaGetLastError());
    if (!enqueues_) enqueue(view, count);
  }

  void stream(const View& view, std::uint64_t count, const Stream&) override {
    if (enqueues_) enqueue(view, count);
    else let_go();
  }

  void disarm() override {
    if (enqueues_) let_go();
    if (Told(gate()->expired).load(cuda::memory_order_acquire) == 0) return;
    throw Stuck("enqueueing small copies did not come to its end within " +
                std::to_string(static_cast<int>(patience_.count())) + " s");
  }

 private:
  [[nodiscard]] const Lane& lane() const { return lanes().front(); }
  [[nodiscard]] Gate* gate() const { return reinterpret_cast<Gate*>(memory_.data()); }

  void enqueue(const View& view, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      VOLLEY_CUDA_CHECK(cudaMemcpyPeerAsync(lane().to.at, lane().to.device, lane().from.at, lane().from.device,
                                            view.bytes, lane().stream().get()));
    }
  }

  void let_go() {
    Told(gate()->open).store(ticket_, cuda::memory_order_release);
    await(lane().stream(), patience_);
  }

  bool enqueues_;
  Seconds patience_;
  gpu::PinnedBuffer memory_;
  std::uint64_t ticket_ = 0;
};

}  // namespace

std::unique_ptr<Link> make_held(const Section& section, std::vector<Lane> lanes, bool peers, Seconds patience) {
  return std::make_unique<Held>(section, std::move(lanes), peers, patience);
}

}  // namespace volley::node
