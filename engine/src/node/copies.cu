// Links whose data is moved by copy engines or by a kernel that copies: bandwidth, and the completion of one small copy.
#include <algorithm>

#include "../gpu/check_cuda.cuh"
#include "../handles/pinned_buffer.cuh"
#include "kernels.cuh"
#include "lanes.cuh"

namespace volley::node {

namespace {

class Copies : public LaneLink {
 public:
  Copies(const Section& section, std::vector<Lane> lanes, bool peers, Seconds patience)
      : LaneLink(std::move(lanes), peers), section_(section), patience_(patience) {}

  // The first copy of a link may hang; a small one is awaited without a deadline later, because that is faster.
  void prepare(const View& view) override {
    for (const auto& lane : this->lanes()) copy(lane, view.bytes);
    finish(view.bytes);
  }

  void stream(const View& view, std::uint64_t windows, const Stream& stream) override {
    for (std::uint64_t window = 0; window < windows; ++window) {
      for (int message = 0; message < stream.window; ++message) {
        for (const auto& lane : this->lanes()) copy(lane, view.bytes);
      }
      if (section_.figure == Figure::completion) synchronize();
      else finish(view.bytes * static_cast<std::uint64_t>(stream.window));
    }
  }

 protected:
  virtual void copy(const Lane& lane, std::uint64_t bytes) {
    if (lane.from.device < 0 || lane.to.device < 0) {
      VOLLEY_CUDA_CHECK(cudaMemcpyAsync(lane.to.at, lane.from.at, bytes, cudaMemcpyDefault, lane.stream().get()));
    } else {
      VOLLEY_CUDA_CHECK(cudaMemcpyPeerAsync(lane.to.at, lane.to.device, lane.from.at, lane.from.device, bytes,
                                            lane.stream().get()));
    }
  }

  [[nodiscard]] Seconds patience() const { return patience_; }

 private:
  void synchronize() {
    for (const auto& lane : this->lanes()) lane.stream().synchronize();
  }
  void finish(std::uint64_t bytes) {
    const Seconds enough = patience_ + Seconds(patience_s_per_byte * static_cast<double>(bytes));
    for (const auto& lane : this->lanes()) await(lane.stream(), enough);
  }

  const Section& section_;
  Seconds patience_;
};

class KernelCopies final : public Copies {
 public:
  using Copies::Copies;

 protected:
  void copy(const Lane& lane, std::uint64_t bytes) override {
    gpu::select(lane.driver->device);
    node::copy<<<processors(lane.driver->device), copy_threads, 0, lane.stream().get()>>>(
        reinterpret_cast<const uint4*>(lane.from.at), reinterpret_cast<uint4*>(lane.to.at), bytes / sizeof(uint4));
    VOLLEY_CUDA_CHECK(cudaGetLastError());
  }

 private:
  static unsigned processors(int device) {
    int count = 0;
    VOLLEY_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
    return static_cast<unsigned>(count);
  }
};

// A test: one bit of what arrived is flipped.
class CorruptCopies final : public Copies {
 public:
  using Copies::Copies;

  void stream(const View& view, std::uint64_t windows, const Stream& stream) override {
    Copies::stream(view, windows, stream);
    if (windows == 0) return;
    const Place& place = this->lanes().front().to;
    std::uint8_t byte = 0;
    VOLLEY_CUDA_CHECK(cudaMemcpy(&byte, place.at + view.bytes / 2, 1, cudaMemcpyDefault));
    byte ^= 1;
    VOLLEY_CUDA_CHECK(cudaMemcpy(place.at + view.bytes / 2, &byte, 1, cudaMemcpyDefault));
  }
};

// A test: nobody opens the gate in time.
class HangingCopies final : public Copies {
 public:
  HangingCopies(const Section& section, std::vector<Lane> lanes, bool peers, Seconds patience)
      : Copies(section, std::move(lanes), peers, patience), gate_(sizeof(Gate)) {
    *reinterpret_cast<Gate*>(gate_.data()) = {};
  }

 protected:
  void copy(const Lane& lane, std::uint64_t bytes) override {
    gpu::select(lane.driver->device);
    const auto longer_ns = static_cast<std::uint64_t>(3e9 * patience().count());
    hold<<<1, 1, 0, lane.stream().get()>>>(reinterpret_cast<Gate*>(gate_.data()), 1, longer_ns);
    VOLLEY_CUDA_CHECK(cudaGetLastError());
    Copies::copy(lane, bytes);
  }

 private:
  gpu::PinnedBuffer gate_;
};

}  // namespace

std::unique_ptr<Link> make_copies(const Section& section, std::vector<Lane> lanes, bool peers, Seconds patience,
                                  bool broken) {
  const std::string fault = broken && section.fault != nullptr ? section.fault : "";
  if (fault == "corrupt") return std::make_unique<CorruptCopies>(section, std::move(lanes), peers, patience);
  if (fault == "hang") return std::make_unique<HangingCopies>(section, std::move(lanes), peers, patience);
  if (section.mover == Mover::kernel) return std::make_unique<KernelCopies>(section, std::move(lanes), peers, patience);
  return std::make_unique<Copies>(section, std::move(lanes), peers, patience);
}

}  // namespace volley::node
