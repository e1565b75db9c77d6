// Links whose data is moved by copy engines or by a kernel that copies: bandwidth, and the completion of one small
// copy.
#include <algorithm>

#include "../gpu/check_cuda.cuh"
#include "../transport/device_access.cuh"
#include "gate.cuh"
#include "lanes.cuh"

namespace volley::node {

namespace {

constexpr std::uint64_t first_copy_bytes = 64 << 10;
constexpr unsigned copy_threads = 512;
// Loads of a thread that are under way before its first store: a round trip over the link is paid once for 192 bytes.
constexpr int copy_in_flight = 12;

// One block a multiprocessor; `units` of 16 bytes.
__global__ void __launch_bounds__(copy_threads, 1) copy_kernel(const uint4* from, uint4* to, std::uint64_t units) {
  const std::uint64_t threads = std::uint64_t{gridDim.x} * blockDim.x;
  std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; first + (copy_in_flight - 1) * threads < units; first += copy_in_flight * threads) {
    uint4 held[copy_in_flight];
#pragma unroll
    for (int i = 0; i < copy_in_flight; ++i) held[i] = device::load(from + first + i * threads);
#pragma unroll
    for (int i = 0; i < copy_in_flight; ++i) device::store(to + first + i * threads, held[i]);
  }
  for (; first < units; first += threads) device::store(to + first, device::load(from + first));
}

class Copies : public LaneLink {
 public:
  Copies(const Section& section, std::vector<Lane> lanes, bool peers, Seconds patience)
      : LaneLink(std::move(lanes), peers), section_(section), patience_(patience) {}

  // The first copy of a link may hang; a small one is awaited without a deadline later, because that is faster.
  void prepare(const View& view) override {
    const std::uint64_t bytes = std::min(view.bytes, first_copy_bytes);
    for (const auto& lane : this->lanes()) copy(lane, lane.from.at, bytes);
    finish(bytes);
  }

  void stream(const View& view, std::uint64_t windows, const Stream& stream) override {
    for (std::uint64_t window = 1; window <= windows; ++window) {
      for (int message = 0; message < stream.window; ++message) {
        for (const auto& lane : this->lanes()) copy(lane, lane.source(view, window, windows), view.bytes);
      }
      if (section_.figure == Figure::completion) synchronize();
    }
    if (section_.figure == Figure::bandwidth) finish(windows * view.bytes * static_cast<std::uint64_t>(stream.window));
  }

 protected:
  virtual void copy(const Lane& lane, const std::byte* from, std::uint64_t bytes) {
    if (lane.from.device < 0 || lane.to.device < 0) {
      VOLLEY_CUDA_CHECK(cudaMemcpyAsync(lane.to.at, from, bytes, cudaMemcpyDefault, lane.stream().get()));
    } else {
      VOLLEY_CUDA_CHECK(
          cudaMemcpyPeerAsync(lane.to.at, lane.to.device, from, lane.from.device, bytes, lane.stream().get()));
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
  void copy(const Lane& lane, const std::byte* from, std::uint64_t bytes) override {
    gpu::select(lane.driver->device);
    copy_kernel<<<processors(lane.driver->device), copy_threads, 0, lane.stream().get()>>>(
        reinterpret_cast<const uint4*>(from), reinterpret_cast<uint4*>(lane.to.at), bytes / sizeof(uint4));
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
  using Copies::Copies;

 protected:
  void copy(const Lane& lane, const std::byte* from, std::uint64_t bytes) override {
    gpu::select(lane.driver->device);
    gate_.close(lane.stream(), 3 * patience());
    Copies::copy(lane, from, bytes);
  }

 private:
  Gate gate_;
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
