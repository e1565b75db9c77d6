// Links whose small copies are enqueued behind a kernel that holds the stream, as the CUDA sample
// p2pBandwidthLatencyTest does it: then enqueueing and performing them can be timed apart.
#include "../gpu/check_cuda.cuh"
#include "lanes.cuh"

namespace volley::node {

namespace {

class Held final : public LaneLink {
 public:
  Held(const Section& section, std::vector<Lane> lanes, bool peers, Seconds patience)
      : LaneLink(std::move(lanes), peers), enqueues_(section.figure == Figure::enqueue), patience_(patience) {}

  void arm(const View& view, std::uint64_t count) override {
    gpu::select(lane().driver->device);
    gate().close(lane().stream(), patience_);
    if (!enqueues_) enqueue(view, count);
  }

  void stream(const View& view, std::uint64_t count, const Stream&) override {
    if (enqueues_) enqueue(view, count);
    else let_go();
  }

  void disarm() override {
    if (enqueues_) let_go();
    if (!gate().expired()) return;
    throw Stuck("enqueueing small copies did not come to its end within " +
                std::to_string(static_cast<int>(patience_.count())) + " s");
  }

 private:
  [[nodiscard]] const Lane& lane() const { return lanes().front(); }
  [[nodiscard]] Gate& gate() const { return *lane().driver->gate; }

  void enqueue(const View& view, std::uint64_t count) {
    for (std::uint64_t i = 1; i <= count; ++i) {
      VOLLEY_CUDA_CHECK(cudaMemcpyPeerAsync(lane().to.at, lane().to.device, lane().source(view, i, count),
                                            lane().from.device, view.bytes, lane().stream().get()));
    }
  }

  void let_go() {
    gate().open();
    await(lane().stream(), patience_);
  }

  bool enqueues_;
  Seconds patience_;
};

}  // namespace

std::unique_ptr<Link> make_held(const Section& section, std::vector<Lane> lanes, bool peers, Seconds patience) {
  return std::make_unique<Held>(section, std::move(lanes), peers, patience);
}

}  // namespace volley::node
