// Links whose data is moved by a single thread of a kernel: loads that wait for each other, and stores that are answered.
#include "../gpu/check_cuda.cuh"
#include "../handles/device_buffer.cuh"
#include "../handles/pinned_buffer.cuh"
#include "kernels.cuh"
#include "lanes.cuh"

namespace volley::node {

namespace {

class Loads final : public LaneLink {
 public:
  Loads(std::vector<Lane> lanes, bool peers, Seconds patience)
      : LaneLink(std::move(lanes), peers), patience_(patience) {}

  void stream(const View& view, std::uint64_t passes, const Stream&) override {
    const Lane& lane = lanes().front();
    gpu::select(lane.driver->device);
    chase<<<1, 1, 0, lane.stream().get()>>>(reinterpret_cast<const std::uint64_t*>(lane.from.at),
                                            reinterpret_cast<std::uint64_t*>(lane.to.at),
                                            view.bytes / sizeof(std::uint64_t), passes, 0);
    VOLLEY_CUDA_CHECK(cudaGetLastError());
    await(lane.stream(), patience_);
  }

 private:
  Seconds patience_;
};

class Stores final : public LaneLink {
 public:
  Stores(std::vector<Lane> lanes, bool peers, Seconds patience)
      : LaneLink(std::move(lanes), peers), patience_(patience), expired_(sizeof(std::uint64_t)) {
    *expired() = 0;
    for (std::size_t side = 0; side < inboxes_.size(); ++side) {
      select(this->lanes()[side].from);
      inboxes_[side] = gpu::DeviceBuffer(sizeof(Line));
    }
  }

  // Numbers begin anew with empty inboxes.
  void prepare(const View&) override {
    last_ = 0;
    for (std::size_t side = 0; side < inboxes_.size(); ++side) {
      select(lanes()[side].from);
      VOLLEY_CUDA_CHECK(cudaMemset(inboxes_[side].data(), 0, sizeof(Line)));
      VOLLEY_CUDA_CHECK(cudaStreamSynchronize(nullptr));
    }
  }

  void pingpong(const View&, std::uint64_t exchanges) override {
    for (std::size_t side = 0; side < inboxes_.size(); ++side) start(side, exchanges);
    for (const auto& lane : lanes()) await(lane.stream(), 2 * patience_);
    last_ += exchanges;
    if (const auto number = Told(*expired()).load(cuda::memory_order_acquire); number != 0) {
      throw std::runtime_error("8 bytes that one GPU's kernel stored did not arrive at the other's within " +
                               std::to_string(static_cast<int>(patience_.count())) + " s (message " +
                               std::to_string(number) + ")");
    }
  }

 private:
  [[nodiscard]] std::uint64_t* expired() const { return reinterpret_cast<std::uint64_t*>(expired_.data()); }

  // A lane begins at the side of its number; what comes in there is the other lane's.
  void start(std::size_t side, std::uint64_t exchanges) {
    const Lane& out = lanes()[side];
    const Lane& in = lanes()[1 - side];
    gpu::select(out.from.device);
    bounce<<<1, 1, 0, out.stream().get()>>>({.send = reinterpret_cast<const std::uint64_t*>(out.from.at),
                                             .recv = reinterpret_cast<std::uint64_t*>(in.to.at),
                                             .inbox = reinterpret_cast<Line*>(inboxes_[side].data()),
                                             .inbox_there = reinterpret_cast<Line*>(inboxes_[1 - side].data()),
                                             .last = last_,
                                             .count = exchanges,
                                             .leads = side == 0,
                                             .expired = expired(),
                                             .patience_ns = static_cast<std::uint64_t>(1e9 * patience_.count())});
    VOLLEY_CUDA_CHECK(cudaGetLastError());
  }

  Seconds patience_;
  gpu::PinnedBuffer expired_;
  std::array<gpu::DeviceBuffer, 2> inboxes_;
  std::uint64_t last_ = 0;
};

}  // namespace

std::unique_ptr<Link> make_loads(std::vector<Lane> lanes, bool peers, Seconds patience) {
  return std::make_unique<Loads>(std::move(lanes), peers, patience);
}

std::unique_ptr<Link> make_stores(std::vector<Lane> lanes, bool peers, Seconds patience) {
  return std::make_unique<Stores>(std::move(lanes), peers, patience);
}

}  // namespace volley::node
